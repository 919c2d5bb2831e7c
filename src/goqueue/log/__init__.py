"""Append-only storage over a disk: one directory holds one log.

    00000000000000000000.log     batches from offset 0, byte for byte as they came over the wire
    00000000000000000000.index   what is known about that file: a sparse index by offset and time, aborted
                                 transactions, leader epochs, producers; always rebuildable from the .log
    checkpoint                   how far the log is durable, and where it starts

`log.Log` is the interface. Long blocking work is a value with a `run` method (a `Flush`, an `Upkeep`, a `Compaction`)
that any thread may run while the owner keeps reading and appending.
"""
