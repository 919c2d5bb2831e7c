"""Unit tests of `goqueue.client.kafka`."""
