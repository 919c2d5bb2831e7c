"""The data source `goqueue` for writing, exactly once."""
