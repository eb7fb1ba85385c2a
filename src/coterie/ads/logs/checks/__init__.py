"""Checks of bid logs: faults, the rules that find them, and what is reported."""
