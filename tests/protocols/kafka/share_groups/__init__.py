"""Tests of share groups through the Kafka listener."""
