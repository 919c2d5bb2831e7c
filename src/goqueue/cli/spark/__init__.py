"""`goqueue spark`."""
