"""What commands share: options, progress, summaries, written files."""
