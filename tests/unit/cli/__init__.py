"""Unit tests of `goqueue.cli`."""
