"""Dead letters and redrives by HTTP."""
