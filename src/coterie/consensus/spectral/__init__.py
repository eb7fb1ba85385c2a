"""Consensus by the rows or the spectrum of the co-association matrix."""
