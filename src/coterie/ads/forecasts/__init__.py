"""Forecasts of a fitted market at a bid: tables, kernels, placement, profiles, checks."""
