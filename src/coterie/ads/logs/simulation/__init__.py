"""Simulated bid logs with planted segments."""
