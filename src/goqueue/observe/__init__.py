"""Metrics and health of a running broker. Reads state, and changes nothing."""
