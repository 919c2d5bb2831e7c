"""`goqueue bench`."""
