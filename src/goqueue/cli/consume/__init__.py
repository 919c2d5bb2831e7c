"""`goqueue consume`."""
