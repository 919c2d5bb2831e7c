"""The record batch, Kafka's format v2: the one byte format on the wire, on disk, in replication and in Spark.

`layout` reads and checks the header, which is all that the hot path needs; `reader` and `builder` go from batches to
records and back; `compression` opens payloads within bounds; `control` knows transaction markers and `rewrite` what
compaction leaves. Everything here is pure: bytes in, bytes or values out. Invalid bytes from outside raise a
`GoQueueError`, never another exception.
"""
