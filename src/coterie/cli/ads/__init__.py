"""The commands ``coterie ads …``: bid logs to segments, forecasts and a report."""
