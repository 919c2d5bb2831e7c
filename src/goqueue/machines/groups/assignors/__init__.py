"""Assignors: which member gets which partitions."""
