"""Targets: what the values of a dimension change for an advertiser."""
