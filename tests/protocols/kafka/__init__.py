"""Tests of the Kafka listener, frame by frame."""
