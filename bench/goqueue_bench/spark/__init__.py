"""Benchmarks of Spark with GoQueue."""
