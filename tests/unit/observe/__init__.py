"""Unit tests of `goqueue.observe`."""
