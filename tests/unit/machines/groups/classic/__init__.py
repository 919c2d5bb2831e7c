"""Unit tests of `goqueue.machines.groups.classic`."""
