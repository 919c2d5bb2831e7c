"""Tests of transactions through HTTP."""
