"""Unit tests of `goqueue.broker`."""
