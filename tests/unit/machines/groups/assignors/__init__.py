"""Unit tests of `goqueue.machines.groups.assignors`."""
