"""The benchmark of the log alone."""
