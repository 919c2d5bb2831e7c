"""The archive of a topic: Parquet files, and the commits that name them."""
