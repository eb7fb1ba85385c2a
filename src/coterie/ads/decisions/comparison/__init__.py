"""Comparison of two models or of two periods: what changed, for whom, and whether it is noise."""
