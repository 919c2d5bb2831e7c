"""What all commands share: output formats, tables, times, confirmation and standard streams."""
