"""Property tests: laws and stateful models."""
