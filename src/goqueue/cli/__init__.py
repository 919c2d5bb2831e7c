"""The command line: one file per noun, and `output` for everything that is printed."""
