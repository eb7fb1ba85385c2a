"""Looking at results: scores, the number of clusters, displays."""
