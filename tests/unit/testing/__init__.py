"""Unit tests of `goqueue.testing`."""
