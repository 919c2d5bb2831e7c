"""The HTTP interface, tested through its connections."""
