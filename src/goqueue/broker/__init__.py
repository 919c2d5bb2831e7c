"""What a user can do, one function each, and the broker that they work on.

Protocols translate into these functions and back; nothing here knows a wire format. Every operation goes through
`pipeline`, which knows who calls, what is allowed, and what came of it.
"""
