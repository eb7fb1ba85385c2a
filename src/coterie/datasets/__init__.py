"""Data sets of the benchmarks and examples: bundled, or read from COTERIE_DATA."""
