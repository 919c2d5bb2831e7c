"""Unit tests of `goqueue.machines.redrives`."""
