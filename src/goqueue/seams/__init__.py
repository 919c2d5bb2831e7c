"""What the core needs from outside: clock, entropy, disk, network and a sink for events.

Each module holds the protocol and the real implementation; `goqueue.testing` holds the others. Nothing outside
of this room asks the operating system for the time, a random number, a file or a socket.
"""
