"""`goqueue serve` and `goqueue config`."""
