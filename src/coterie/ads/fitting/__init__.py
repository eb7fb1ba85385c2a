"""Fitting: from bid histograms to the model that forecasts; backtest and choice of settings."""
