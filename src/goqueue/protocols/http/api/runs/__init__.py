"""Runs of pipelines and jobs by HTTP."""
