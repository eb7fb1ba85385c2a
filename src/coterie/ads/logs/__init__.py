"""Bid logs: opening files and tables, columns, amounts, texts of advertisers."""
