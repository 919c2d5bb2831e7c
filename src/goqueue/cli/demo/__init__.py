"""`goqueue demo`."""
