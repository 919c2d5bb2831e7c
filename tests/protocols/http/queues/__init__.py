"""Tests of queues through HTTP."""
