"""Unit tests of `goqueue.protocols`."""
