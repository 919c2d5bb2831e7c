"""Unit tests of `goqueue.log`."""
