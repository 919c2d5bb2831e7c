"""The HTTP interface: a file or folder for each noun."""
