"""Tests of dead letters through HTTP."""
