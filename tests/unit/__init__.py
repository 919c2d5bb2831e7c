"""Unit tests: the contract of one module at a time, in the folders of the source."""
