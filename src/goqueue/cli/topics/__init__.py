"""`goqueue topic`."""
