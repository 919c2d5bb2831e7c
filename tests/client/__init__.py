"""Tests of the clients against brokers."""
