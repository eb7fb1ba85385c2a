"""Machine and process: devices and threads, sampling, atomic files, lazy imports, wording."""
