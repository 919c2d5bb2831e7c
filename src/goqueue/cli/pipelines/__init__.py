"""`goqueue pipeline`."""
