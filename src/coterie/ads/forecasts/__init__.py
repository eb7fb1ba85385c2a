"""Forecasts at a bid: backtest, fitted market, forecast tables, evaluation."""
