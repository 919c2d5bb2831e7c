"""Unit tests of `goqueue.spark`."""
