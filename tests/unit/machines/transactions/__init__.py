"""Unit tests of `goqueue.machines.transactions`."""
