"""Redrives: jobs that publish dead letters again."""
