"""Estimators on features or similarities: partitions are made, then their consensus is found."""
