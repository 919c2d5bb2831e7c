"""Unit tests of `goqueue.seams`."""
