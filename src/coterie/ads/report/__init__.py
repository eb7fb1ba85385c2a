"""The HTML report: its contents and their rendering."""
