"""Win-rate and cost curves by bid: landscapes, pooling, demand and supply."""
