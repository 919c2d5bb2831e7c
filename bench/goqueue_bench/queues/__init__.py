"""Benchmarks of queues."""
