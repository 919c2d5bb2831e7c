"""`goqueue produce`."""
