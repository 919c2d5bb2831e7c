"""The data source `goqueue` for reading: options, plans, batch and stream readers."""
