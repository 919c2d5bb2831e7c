"""Unit tests of `goqueue.runtime`."""
