"""The what-if page that the report and the service share: scripts, styles, templates."""
