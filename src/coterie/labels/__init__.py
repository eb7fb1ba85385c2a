"""Labels in: label matrices, soft memberships, and their compression into distinct tuples."""
