"""A broker as a process: its settings, its listeners, and how it starts, drains and stops.

This package passes the real seams to the packages below. `settings` is quick to import, so that the command line can
show help without loading a broker.
"""
