"""Unit tests of `goqueue.client`."""
