"""Groups whose broker assigns partitions (KIP-848)."""
