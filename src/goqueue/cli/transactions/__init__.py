"""`goqueue txn`."""
