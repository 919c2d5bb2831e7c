"""Tests of single Kafka APIs."""
