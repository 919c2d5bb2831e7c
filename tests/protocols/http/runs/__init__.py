"""Tests of runs through HTTP."""
