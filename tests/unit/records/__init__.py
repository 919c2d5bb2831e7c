"""Unit tests of `goqueue.records`."""
