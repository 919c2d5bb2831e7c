"""Tests of the protocols through their connections."""
