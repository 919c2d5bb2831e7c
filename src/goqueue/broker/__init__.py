"""The operations of the broker, one function each, and the services that they work on.

Protocols translate into these functions and back; nothing here knows a wire format. Every operation goes through
`admission`, which knows the caller, what is allowed, and the outcome.
"""
