"""Kafka's requests and replies as values, without a socket.

Each request has one fixed version. `frame` has the versions and the codec's errors as the client raises them, the
others a few requests each. The bytes are the business of `goqueue.kafka_wire`.
"""
