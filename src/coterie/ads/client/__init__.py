"""A client for the forecast service."""
