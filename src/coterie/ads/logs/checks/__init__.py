"""Checks of bid logs: catalogue of faults, rules, queries and report."""
