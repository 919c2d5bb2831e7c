"""`goqueue queue`."""
