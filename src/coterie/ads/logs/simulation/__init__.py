"""Simulated bid logs with known segments."""
