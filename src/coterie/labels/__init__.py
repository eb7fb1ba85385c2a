"""Labels of points in partitions.

``encode``     label matrices, read from any kind of table and encoded as small integers
``soft``       membership matrices of soft partitions
``tuples``     distinct rows of labels with their weights, sorted in an order of their own
``append``     partitions added to fitted tuples
``row_index``  names of the rows in pandas tables
"""
