"""The machine and the process: devices, threads, sampling, atomic files, lazy imports, text."""
