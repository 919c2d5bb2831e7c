"""Unit tests of `goqueue.broker.queues`."""
