"""The commands ``coterie ads …``: from bid logs to segments, forecasts and a report."""
