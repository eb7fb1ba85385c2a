"""Consensus by hierarchical linkage of co-association."""
