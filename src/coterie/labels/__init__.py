"""Label matrices, soft memberships, and their compression to distinct tuples."""
