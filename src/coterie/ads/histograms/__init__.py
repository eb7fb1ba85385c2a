"""Histograms of bids by advertiser and day, counted in the engine."""
