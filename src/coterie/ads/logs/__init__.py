"""Bid logs: files and tables, columns, amounts and advertiser texts."""
