"""Which dead letters were published again by a redrive: a bit for each, in chunks.

| key                                     | value                                      | none (tombstone)              |
|-----------------------------------------|--------------------------------------------|-------------------------------|
| `redriven TOPIC_ID PARTITION CHUNK`     | bits, the first letter in the lowest one   | none of these, or all gone    |

A letter is known by the id of its topic, so that a topic of the same name that is made later begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from goqueue.errors import Corrupt
from goqueue.machines.decision import KeyedRecord

CHUNK_LETTERS = 4096
KEY_PREFIX = b"redriven "


class RedrivenChunkKey(NamedTuple):
    """Dead letters of a partition that share a record."""

    topic_id: UUID
    partition: int
    chunk: int

    @property
    def key(self) -> bytes:
        """The key of their record."""
        return KEY_PREFIX + f"{self.topic_id} {self.partition} {self.chunk}".encode()


class Redriven:
    """All dead letters that were published again, as of the last record."""

    def __init__(self) -> None:
        self._bits: dict[RedrivenChunkKey, int] = {}

    def has(self, topic_id: UUID, partition: int, offset: int) -> bool:
        """Return whether a dead letter was published again."""
        chunk, bit = divmod(offset, CHUNK_LETTERS)
        return bool(self._bits.get(RedrivenChunkKey(topic_id, partition, chunk), 0) >> bit & 1)

    def bits(self, topic_id: UUID, partition: int, first: int, count: int) -> int:
        """Return a bit for each of some consecutive dead letters of one chunk, the lowest for the first."""
        chunk, bit = divmod(first, CHUNK_LETTERS)
        return self._bits.get(RedrivenChunkKey(topic_id, partition, chunk), 0) >> bit & (1 << count) - 1

    def count(self, topic_id: UUID, partition: int, start: int) -> int:
        """Return how many dead letters of a partition, from an offset on, were published again."""
        first, bit = divmod(start, CHUNK_LETTERS)
        found = 0
        for place, bits in self._bits.items():
            if place.topic_id == topic_id and place.partition == partition and place.chunk >= first:
                found += (bits >> bit if place.chunk == first else bits).bit_count()
        return found

    def marked(self, topic_id: UUID, partition: int, offsets: Iterable[int]) -> Iterator[KeyedRecord]:
        """Yield the records that mark dead letters as published again."""
        changed: dict[RedrivenChunkKey, int] = {}
        for offset in offsets:
            chunk, bit = divmod(offset, CHUNK_LETTERS)
            place = RedrivenChunkKey(topic_id, partition, chunk)
            changed[place] = changed.get(place, self._bits.get(place, 0)) | 1 << bit
        for place, bits in changed.items():
            yield _record(place, bits)

    def passed(self, topic_id: UUID, partition: int, start: int) -> Iterator[KeyedRecord]:
        """Yield the records that forget the dead letters of a partition before an offset, in whole chunks."""
        for place in self._bits:
            is_before = (place.chunk + 1) * CHUNK_LETTERS <= start
            if is_before and place.topic_id == topic_id and place.partition == partition:
                yield KeyedRecord(place.key, None)

    def dropped(self, topic_id: UUID) -> Iterator[KeyedRecord]:
        """Yield the records that forget all dead letters of a topic."""
        return (KeyedRecord(place.key, None) for place in self._bits if place.topic_id == topic_id)

    def apply(self, record: KeyedRecord) -> None:
        """Apply a record; Corrupt if it is malformed."""
        place = _place(record.key)
        if record.value is None:
            self._bits.pop(place, None)
        else:
            self._bits[place] = int.from_bytes(record.value, "little")

    def records(self) -> list[KeyedRecord]:
        """Return the records from which a new table becomes equal to this one."""
        return [_record(place, bits) for place, bits in self._bits.items()]

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        assert all(0 < bits < 1 << CHUNK_LETTERS for bits in self._bits.values()), "no chunk is empty, or too large"


def _record(place: RedrivenChunkKey, bits: int) -> KeyedRecord:
    return KeyedRecord(place.key, bits.to_bytes((bits.bit_length() + 7) // 8, "little"))


def _place(key: bytes) -> RedrivenChunkKey:
    try:
        topic_id, partition, chunk = key.removeprefix(KEY_PREFIX).decode("ascii").split(" ")
        return RedrivenChunkKey(UUID(topic_id), int(partition), int(chunk))
    except ValueError as error:
        raise Corrupt(f"{key!r} names no dead letters") from error
