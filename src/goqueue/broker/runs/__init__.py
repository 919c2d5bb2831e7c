"""Runs of pipelines and jobs, as they report to the broker."""
