"""A broker as a process: its settings, its listeners, and how it starts, drains and stops.

The room in which the real seams are handed to the rooms below. `settings` is light to import, so that the command
line can ask for help without loading a broker.
"""
