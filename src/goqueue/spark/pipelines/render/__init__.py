"""Plans as text and drawings."""
