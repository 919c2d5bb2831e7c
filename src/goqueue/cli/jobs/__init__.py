"""`goqueue job`."""
