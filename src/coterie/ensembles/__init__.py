"""Making partitions: strategies, base clusterers, scalings of features, planted ensembles."""
