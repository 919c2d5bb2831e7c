"""`goqueue log`."""
