"""Unit tests of `goqueue.machines.queues`."""
