"""Benchmarks: what the parts cost on this machine, each measured against the best that the machine itself can do."""
