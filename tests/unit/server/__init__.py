"""Unit tests of `goqueue.server`."""
