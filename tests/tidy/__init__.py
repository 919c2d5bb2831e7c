"""Tests that the repository is tidy: `rules` for code, `prose` for words."""
