"""Counts over label tuples: contingency tables, co-association, cluster tables, growth."""
