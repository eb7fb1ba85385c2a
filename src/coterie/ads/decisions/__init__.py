"""Decisions: what to do with forecasts."""
