"""From a pipeline to DataFrames."""
