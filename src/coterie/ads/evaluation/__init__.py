"""Evaluation of forecasts on held-out days, against baselines and the sources of the paper."""
