"""Unit tests of `goqueue.broker.groups`."""
