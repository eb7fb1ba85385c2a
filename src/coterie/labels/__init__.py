"""Labels of points in partitions.

``encode``  label matrices, read from any kind of table and encoded as small integers
``soft``    membership matrices of soft partitions
``tuples``  distinct rows of labels with their weights, in an order of their own; growth
"""
