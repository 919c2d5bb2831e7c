"""Find mistakes in a pipeline before anything runs."""
