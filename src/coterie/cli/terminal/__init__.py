"""Parts shared by the commands: options, layout, progress, summaries, outputs."""
