"""Run the queries of a pipeline, and watch them."""
