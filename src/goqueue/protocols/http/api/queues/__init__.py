"""Queue groups by HTTP."""
