"""What compaction leaves of stored records.

A pass leaves each key's last record where it is, so a record that is written again comes to stand behind others that
were younger. It may reach only as far as segments are sealed, and it drops what says that a key is gone once that is
old enough. Whatever has happened of that, a machine has to become the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.machines.decision import KeyedRecord

Records = Sequence[KeyedRecord]
COMPACTIONS = 7


def compacted(records: Records, end: int | None = None, *, drops_tombstones: bool = False) -> list[KeyedRecord]:
    """Return what a pass over the records before a place leaves, and those behind it."""
    passed, rest = (records, ()) if end is None else (records[:end], records[end:])
    last = {record.key: place for place, record in enumerate(passed)}
    left = [
        record
        for place, record in enumerate(passed)
        if last[record.key] == place and not (drops_tombstones and record.value is None)
    ]
    return [*left, *rest]


def compactions(records: Records) -> list[Records]:
    """Return the records as they are, and what different passes leave; the last one has reached everything."""
    third, half = len(records) // 3, len(records) // 2
    once = compacted(records, third, drops_tombstones=True)
    reached = len(once) - (len(records) - half)
    return [
        records,
        compacted(records, half),
        compacted(records, half, drops_tombstones=True),
        compacted(once, reached),
        compacted(records, len(records) - 1),
        compacted(records),
        compacted(records, drops_tombstones=True),
    ]
