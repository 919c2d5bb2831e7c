"""Unit tests of `goqueue.machines.runs`."""
