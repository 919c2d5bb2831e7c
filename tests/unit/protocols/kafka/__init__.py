"""Unit tests of `goqueue.protocols.kafka`."""
