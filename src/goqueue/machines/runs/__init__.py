"""Tables of the runs of pipelines and jobs."""
