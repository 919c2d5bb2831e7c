"""The HTTP interface, tested through its connections."""  # noqa: A005 - it is tests.http
