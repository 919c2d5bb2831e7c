"""Selects, verifies and decompresses the batches of a fetch reply that have rows for the reader.

Handles whole batches, never records. A reply may begin before the wanted offset and end in the middle of a batch. For a
reader of committed records it comes with the aborted transactions that it touches:

    an aborted transaction begins          its producer's transactional batches are hidden from there on ...
    its producer's abort marker            ... up to here

Markers and other control batches are never rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from goqueue.errors import CorruptBatch, TooLarge, UnsupportedFormat
from goqueue.records.control import ControlType, read_marker
from goqueue.records.layout import BatchHeader, headers
from goqueue.records.reader import verified

_TOO_LARGE_HINT = "raise the option goqueue.max.decompressed.bytes, up to 1GiB"


class WantedOffsets(NamedTuple):
    """Which records to decode: offsets from `start` on and before `end`, of one partition."""

    topic: str
    partition: int
    start: int
    end: int


class FetchedBatch(NamedTuple):
    """A batch of the reply; `payload` is None if it holds nothing for this reader."""

    header: BatchHeader
    payload: bytes | None


def opened_batches(
    batches: memoryview,
    wanted: WantedOffsets,
    *,
    aborted: Iterable[tuple[int, int]],
    opened_bytes_max: int,
) -> Iterator[FetchedBatch]:
    """Yield the batches up to the end of what is wanted, in order; ends before one that is cut off.

    CorruptBatch if one is damaged, TooLarge if one opens to more than `opened_bytes_max`; both name the place.
    """
    hidden = _Hidden(aborted)
    expected = 0
    try:
        for position, header in headers(batches):
            if header.base_offset < expected:
                raise CorruptBatch(f"offset {header.base_offset} comes after offset {expected - 1}")
            batch = batches[position : position + header.size_bytes]
            yield FetchedBatch(header, _payload(batch, header, wanted, hidden, opened_bytes_max))
            expected = header.next_offset
            if expected >= wanted.end:
                return
    except (CorruptBatch, UnsupportedFormat, TooLarge) as error:
        raise located(error, wanted, max(expected, wanted.start)) from None


def located(
    error: CorruptBatch | UnsupportedFormat | TooLarge, wanted: WantedOffsets, offset: int
) -> CorruptBatch | TooLarge:
    """Return the error with the place where it was found."""
    kind = TooLarge if isinstance(error, TooLarge) else CorruptBatch
    place = f"topic {wanted.topic}, partition {wanted.partition}, offset {offset}"
    return kind(f"{place}: {error.message}", hint=error.hint)


def _payload(
    batch: memoryview, header: BatchHeader, wanted: WantedOffsets, hidden: _Hidden, opened_bytes_max: int
) -> bytes | None:
    if header.base_offset >= wanted.end:
        return None
    # Batches before the wanted ones may hold the end of a transaction, and their offsets are followed.
    sound = verified(batch)
    if hidden.hides(batch, header) or header.next_offset <= wanted.start or not header.record_count:
        return None
    try:
        return sound.payload(opened_bytes_max)
    except TooLarge as error:
        raise TooLarge(error.message, hint=_TOO_LARGE_HINT) from None


class _Hidden:
    """The producers with an aborted transaction at the current batch."""

    __slots__ = ("_producer_ids", "_upcoming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._upcoming = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
        self._upcoming.reverse()
        self._producer_ids: set[int] = set()

    def hides(self, batch: memoryview, header: BatchHeader) -> bool:
        """Return whether a batch has no rows for this reader; called for each batch in order."""
        while self._upcoming and self._upcoming[-1][0] <= header.last_offset:
            self._producer_ids.add(self._upcoming.pop()[1])
        if header.is_control:
            if header.producer_id in self._producer_ids and _is_abort(batch, header):
                self._producer_ids.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._producer_ids


def _is_abort(batch: memoryview, header: BatchHeader) -> bool:
    # Compaction may leave the shell of a marker.
    if not header.record_count:
        return False
    try:
        return read_marker(batch).control_type is ControlType.ABORT
    except UnsupportedFormat:
        # Other kinds of control batches end no transaction.
        return False
