"""The Kafka protocol.

`frames` cuts a stream of bytes into requests, `connection` keeps replies in order, `apis` lists what is offered.
Produce and Fetch are written by hand over memoryviews; everything else goes through `schema`, `decode` and `encode`,
which follow the message definitions that kio ships.
"""
