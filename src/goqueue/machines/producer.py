"""The idempotent and transactional producers of a partition.

The table is a fold over the batch headers of the log: `apply` is called for every batch, at append and at
recovery alike, and nothing else changes the table except `expire`. `decide` judges a batch before it is appended
and changes nothing, so a failed append leaves no trace and its retry is no duplicate.

| batch of a producer                        | verdict                                       |
|--------------------------------------------|-----------------------------------------------|
| unknown producer, sequence 0 or none       | Fresh                                         |
| unknown producer, any other sequence       | Refused, UnknownProducer                      |
| epoch lower than the known one             | Refused, ProducerFenced                       |
| epoch higher, sequence 0                   | Fresh                                         |
| epoch higher, any other sequence           | Refused, OutOfOrderSequence                   |
| same epoch, next sequence                  | Fresh                                         |
| same epoch, only a marker known, sequence 0 | Fresh                                        |
| same epoch, equal to one of the last five  | Duplicate, answered with that batch's offset  |
| same epoch, anything else                  | Refused, OutOfOrderSequence                   |

An unknown producer has to start with sequence 0: if its first batch failed, the next one must not take its place. A
producer that was forgotten gets UnknownProducer, and starts again with another epoch or id.

A transaction is open from its first data batch until its marker. The first offset of the oldest open one bounds
what read-committed readers may read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from goqueue.errors import (
    GoQueueError,
    InvalidTransactionState,
    OutOfOrderSequence,
    ProducerFenced,
    UnknownProducer,
)
from goqueue.records.control import ControlType
from goqueue.records.layout import BatchHeader

RECENT_BATCHES_MAX = 5
NO_SEQUENCE = -1
NO_OFFSET = -1
_SEQUENCE_END = 2**31

_PRODUCER = struct.Struct(">qhqqqB")
_RECENT = struct.Struct(">iiqq")


class SeenBatch(NamedTuple):
    """One of the last batches of a producer, kept to answer its retry."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    timestamp: int


class AbortedRange(NamedTuple):
    """Records of `producer_id` in [first_offset, last_offset] are aborted.

    `last_stable_offset` is the bound of read-committed readers right after this transaction ended: every transaction
    that began before it had ended by then.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Fresh(NamedTuple):
    """The batch continues its producer's sequence, or has none: append it."""


class Duplicate(NamedTuple):
    """The batch is stored already; answer with its offset."""

    base_offset: int


class Refused(NamedTuple):
    """The batch must not be appended."""

    error: GoQueueError


Verdict = Fresh | Duplicate | Refused

_FRESH = Fresh()


@dataclass(slots=True)
class KnownProducer:
    """The state of one producer; `transaction_start` is NO_OFFSET unless a transaction is open.

    `last_offset` is the base offset of its last batch, be it data or a marker.
    """

    epoch: int
    last_timestamp: int = -1
    last_offset: int = NO_OFFSET
    transaction_start: int = NO_OFFSET
    recent: list[SeenBatch] = field(default_factory=list)
    # The last batch at the time of the last `expire`, and since when no other has come. Not stored.
    idle_offset: int = field(default=NO_OFFSET, compare=False)
    idle_since_ms: int = field(default=0, compare=False)


class ProducerTable:
    """The producers of one partition, as of the last applied batch."""

    __slots__ = ("_open", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, KnownProducer] = {}
        self._open: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, KnownProducer]]:
        return iter(sorted(self._producers.items()))

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return min(self._open.values()) if self._open else None

    def decide(self, header: BatchHeader) -> Verdict:
        """Return whether to append a batch."""
        if header.producer_id < 0:
            return _FRESH
        known = self._producers.get(header.producer_id)
        if known is None:
            is_beginning = header.is_control or header.base_sequence in (0, NO_SEQUENCE)
            return _FRESH if is_beginning else _unknown(header)
        if header.producer_epoch < known.epoch:
            return Refused(
                ProducerFenced(
                    f"producer {header.producer_id} wrote with epoch {header.producer_epoch}, "
                    f"but epoch {known.epoch} has replaced it"
                )
            )
        if header.is_control:
            return _FRESH
        if known.transaction_start != NO_OFFSET and not header.is_transactional:
            return Refused(
                InvalidTransactionState(
                    f"producer {header.producer_id} has a transaction open here", hint="commit or abort it first"
                )
            )
        return _judge_sequence(header, known)

    def apply(self, header: BatchHeader, marker: ControlType | None = None) -> AbortedRange | None:
        """Apply an appended batch; return the transaction that it aborted, if it is an abort marker."""
        if header.producer_id < 0:
            return None
        known = self._producers.get(header.producer_id)
        if known is None:
            known = self._producers[header.producer_id] = KnownProducer(header.producer_epoch)
        elif header.producer_epoch != known.epoch:
            known.epoch = header.producer_epoch
            known.recent.clear()
        known.last_timestamp = max(known.last_timestamp, header.max_timestamp)
        known.last_offset = header.base_offset
        if header.is_control:
            return self._end_transaction(header, known, marker)
        if header.base_sequence != NO_SEQUENCE:
            known.recent.append(
                SeenBatch(header.base_sequence, header.last_sequence, header.base_offset, header.max_timestamp)
            )
            del known.recent[:-RECENT_BATCHES_MAX]
        if header.is_transactional and known.transaction_start == NO_OFFSET:
            known.transaction_start = self._open[header.producer_id] = header.base_offset
        return None

    def _end_transaction(
        self, header: BatchHeader, known: KnownProducer, marker: ControlType | None
    ) -> AbortedRange | None:
        start, known.transaction_start = known.transaction_start, NO_OFFSET
        self._open.pop(header.producer_id, None)
        if start == NO_OFFSET or marker is not ControlType.ABORT:
            return None
        stable = self.first_open_offset
        return AbortedRange(
            header.producer_id, start, header.last_offset, header.next_offset if stable is None else stable
        )

    def wants_marker(self, producer_id: int, epoch: int) -> bool:
        """Return whether a marker with this epoch ends a transaction here, or fences a producer."""
        known = self._producers.get(producer_id)
        return known is None or known.epoch < epoch or known.transaction_start != NO_OFFSET

    def known_epoch(self, producer_id: int) -> int:
        """Return the epoch of a producer here; -1 if it is unknown."""
        known = self._producers.get(producer_id)
        return -1 if known is None else known.epoch

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """Return the first sequence of a producer's next batch, if it has written all before."""
        known = self._producers.get(producer_id)
        if known is None or known.epoch != epoch or not known.recent:
            return 0
        return following_sequence(known.recent[-1].last_sequence)

    def has_open_transaction(self, producer_id: int) -> bool:
        """Return whether a producer has written here since its last marker."""
        return producer_id in self._open

    def expire(self, now_ms: int, idle_ms: int) -> int:
        """Forget producers without an open transaction that have been idle for this long; return how many.

        A producer is idle that has written nothing between two calls, by the broker's clock: timestamps of records may
        be of any time, and a producer of old records is not an old producer.
        """
        idle = []
        for producer_id, known in self._producers.items():
            if known.idle_offset != known.last_offset:
                known.idle_offset, known.idle_since_ms = known.last_offset, now_ms
            elif known.transaction_start == NO_OFFSET and now_ms - known.idle_since_ms >= idle_ms:
                idle.append(producer_id)
        for producer_id in idle:
            del self._producers[producer_id]
        return len(idle)

    def last_offsets(self) -> set[int]:
        """Return the base offsets of the batches that compaction must keep, since only they have the state of
        producers.

        These are each producer's last batch, which may be a marker that fences an older epoch, and its last data.
        """
        data = {known.recent[-1].base_offset for known in self._producers.values() if known.recent}
        return data | {known.last_offset for known in self._producers.values()}

    def encode(self) -> bytes:
        """Return the table as bytes, equal for equal tables."""
        parts = []
        for producer_id in sorted(self._producers):
            known = self._producers[producer_id]
            parts.append(
                _PRODUCER.pack(
                    producer_id,
                    known.epoch,
                    known.last_timestamp,
                    known.last_offset,
                    known.transaction_start,
                    len(known.recent),
                )
            )
            parts.extend(_RECENT.pack(*seen) for seen in known.recent)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> ProducerTable:
        """Return the table that `encode` wrote."""
        table = cls()
        position = 0
        while position < len(data):
            producer_id, epoch, timestamp, last, start, count = _PRODUCER.unpack_from(data, position)
            position += _PRODUCER.size
            recent = [SeenBatch(*_RECENT.unpack_from(data, position + index * _RECENT.size)) for index in range(count)]
            position += count * _RECENT.size
            table._producers[producer_id] = KnownProducer(epoch, timestamp, last, start, recent)
            if start != NO_OFFSET:
                table._open[producer_id] = start
        return table

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        for producer_id, known in self._producers.items():
            assert producer_id >= 0
            assert len(known.recent) <= RECENT_BATCHES_MAX
            assert self._open.get(producer_id, NO_OFFSET) == known.transaction_start
            assert _is_in_order(known.recent)
        assert self._open.keys() <= self._producers.keys()


def _judge_sequence(header: BatchHeader, known: KnownProducer) -> Verdict:
    if header.producer_epoch > known.epoch:
        return _FRESH if header.base_sequence == 0 else _out_of_order(header, expected=0)
    if header.base_sequence == NO_SEQUENCE:
        return _FRESH
    if not known.recent:
        # A marker has raised the epoch: the producer with that epoch starts a new sequence.
        return _FRESH if header.base_sequence == 0 else _out_of_order(header, expected=0)
    for seen in known.recent:
        if seen.base_sequence == header.base_sequence and seen.last_sequence == header.last_sequence:
            return Duplicate(seen.base_offset)
    expected = following_sequence(known.recent[-1].last_sequence)
    return _FRESH if header.base_sequence == expected else _out_of_order(header, expected)


def following_sequence(last_sequence: int, count: int = 1) -> int:
    """Return a sequence plus a number of records; after the greatest sequence follows 0."""
    return (last_sequence + count) % _SEQUENCE_END


def _unknown(header: BatchHeader) -> Refused:
    return Refused(
        UnknownProducer(
            f"producer {header.producer_id} is not known here, but sent sequence {header.base_sequence}",
            hint="it has to begin with sequence 0",
        )
    )


def _out_of_order(header: BatchHeader, expected: int) -> Refused:
    return Refused(
        OutOfOrderSequence(
            f"producer {header.producer_id} (epoch {header.producer_epoch}) sent sequence {header.base_sequence} "
            f"where {expected} was due"
        )
    )


def _is_in_order(recent: Iterable[SeenBatch]) -> bool:
    return all(earlier.base_offset < later.base_offset for earlier, later in pairwise(recent))
