"""Benchmarks of publishing and reading through a broker."""
