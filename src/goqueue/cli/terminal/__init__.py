"""Terminal output and input of all commands: output formats, tables, times, confirmation and standard streams."""
