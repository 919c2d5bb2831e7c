"""Unit tests of `goqueue.model`."""
