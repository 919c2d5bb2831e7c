"""Interfaces of the core to the outside: clock, entropy, disk, network and a sink for events.

Each module holds the protocol and the real implementation; `goqueue.testing` holds the simulated ones. No other package
below `server` asks the operating system for the time, a random number, a file or a socket.
"""
