"""Suites of Kafka clients by other authors, run against a broker of ours."""
