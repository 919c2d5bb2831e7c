"""`goqueue group`."""
