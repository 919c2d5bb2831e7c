"""Unit tests of `goqueue.machines`."""
