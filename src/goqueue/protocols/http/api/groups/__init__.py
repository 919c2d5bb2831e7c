"""Consumer groups by HTTP."""
