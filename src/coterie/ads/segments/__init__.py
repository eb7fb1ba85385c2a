"""Segments of advertisers: views, similarities, graph clusters, memberships, profiles."""
