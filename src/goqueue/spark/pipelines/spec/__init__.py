"""Pipeline files and modules, read into typed values."""
