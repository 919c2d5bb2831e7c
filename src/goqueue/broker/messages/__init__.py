"""Publish, fetch and look up messages."""
