"""Discrete search for the median partition."""
