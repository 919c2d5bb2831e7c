"""Tests of groups through HTTP."""
