"""The HTML report of a consensus: its contents and their rendering."""
