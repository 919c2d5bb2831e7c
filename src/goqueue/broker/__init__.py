"""What a user can do, one function each, and the broker that they work on.

Protocols translate into these functions and back; nothing here knows a wire format. Every operation goes through
`admission`, which knows the caller, what is allowed, and the outcome.
"""
