"""Consensus by factorising the co-association matrix."""
