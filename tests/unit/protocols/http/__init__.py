"""Unit tests of `goqueue.protocols.http`."""
