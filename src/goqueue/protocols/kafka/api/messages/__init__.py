"""Produce, Fetch and ListOffsets."""
