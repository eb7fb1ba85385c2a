"""Win rate and cost by bid: landscapes, pooling, demand and supply."""
