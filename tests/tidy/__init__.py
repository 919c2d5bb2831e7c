"""Tidiness is a test: `rules` says what it means, `test_tidy` that the repository keeps it."""
