"""Questions in, checked; forecasts out, as JSON."""
