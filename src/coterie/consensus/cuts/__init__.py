"""Consensus by cutting a graph or hypergraph of points and base clusters."""
