"""Kafka's frames as values, without a socket: requests become bytes, replies become values.

Every request has one fixed version. All but ApiVersions are of the flexible sort: lengths are varints that are one too
large (0 is null), and a section of tagged fields ends every structure. `fields` knows these rules, `frame` the bytes in
front of a body, and the others a few requests each.
"""
