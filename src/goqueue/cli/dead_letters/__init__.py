"""`goqueue dlq`."""
