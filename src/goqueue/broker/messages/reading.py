"""Reading single messages, for those who open no batches themselves.

A read goes the way of every fetch (`fetch`), where it is admitted and counted, and opens what that brings. Opening is
work on the event loop, so it is bounded: by the number of messages, and by their bytes once opened, however well they
were compressed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.messages.aborted import Aborted
from goqueue.broker.messages.fetch import Fetch, Fetched, FetchTarget, FetchTerms
from goqueue.broker.messages.offsets import NO_OFFSET, OffsetSpec, find_offset
from goqueue.errors import GoQueueError, UnreadableBatch
from goqueue.records.reader import SLICE_RECORDS, Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import hand_over

if TYPE_CHECKING:
    from goqueue.broker.admission import Caller
    from goqueue.broker.messages.service import MessageService


class ReadRequest(NamedTuple):
    """What to read: from an offset, or else from a time on, or else from the start.

    Ends at the limit of messages, or where more than `bytes_max` bytes would come; one message always comes. Messages
    of aborted transactions are left out, and so are those of open ones and all behind them, unless asked for.
    """

    offset: int | None = None
    timestamp_ms: int | None = None
    limit: int = 100
    wait_ms: int = 0
    bytes_max: int = 1024 * 1024
    is_committed_only: bool = True


class ReadMessages(NamedTuple):
    """What was read, where to go on, and from where to where there is something to read (the end is exclusive)."""

    records: list[Record]
    next_offset: int
    start_offset: int
    end_offset: int


class Polls:
    """The reads that wait for messages."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: dict[Fetch, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, fetch: Fetch) -> None:
        """Begin a fetch; if it waits, it is known here until it is over."""
        fetch.begin()
        if not fetch.is_over:
            self._waiting[fetch] = None
            if self.is_closed:
                fetch.finish_now()

    def end(self, fetch: Fetch) -> None:
        """Forget a fetch, which goes on no longer."""
        self._waiting.pop(fetch, None)
        fetch.cancel()

    def close(self) -> None:
        """Answer all that wait with what there is; from now on nobody waits."""
        self.is_closed = True
        for fetch in list(self._waiting):
            fetch.finish_now()


async def read_messages(
    service: MessageService, caller: Caller, polls: Polls, topic: str, index: int, reading: ReadRequest
) -> ReadMessages:
    """Read messages of a partition; waits for the first one if asked to. OffsetOutOfRange tells what there is."""
    reading = reading._replace(bytes_max=min(reading.bytes_max, service.core.options.fetch_bytes_max))
    offset = await _first_offset(service, caller, topic, index, reading)
    wanted = FetchTarget(_partition(service, topic, index), offset, reading.bytes_max)
    arrived: asyncio.Future[Sequence[Fetched]] = asyncio.get_running_loop().create_future()
    terms = FetchTerms(wait_ms=reading.wait_ms, is_committed_only=reading.is_committed_only)
    fetch = Fetch(service, caller, [wanted], terms, partial(hand_over, arrived))
    try:
        polls.begin(fetch)
        (fetched,) = await arrived
    finally:
        polls.end(fetch)
    if fetched.error is not None:
        raise fetched.error
    assert isinstance(wanted.partition, Partition)
    records, next_offset = opened(wanted.partition, fetched, offset, reading)
    end = fetched.last_stable_offset if reading.is_committed_only else fetched.high_watermark
    return ReadMessages(records, next_offset, fetched.start_offset, end)


def _partition(service: MessageService, topic: str, index: int) -> Partition | GoQueueError:
    try:
        return service.topics.topic(topic).partition(index)
    except GoQueueError as error:
        return error


async def _first_offset(service: MessageService, caller: Caller, topic: str, index: int, reading: ReadRequest) -> int:
    if reading.offset is not None:
        return reading.offset
    where = OffsetSpec.EARLIEST if reading.timestamp_ms is None else reading.timestamp_ms
    found = await find_offset(service, caller, topic, index, where)
    if found.offset == NO_OFFSET:
        # Nothing is that young: what comes next is.
        found = await find_offset(service, caller, topic, index, OffsetSpec.LATEST)
    return found.offset


def opened(partition: Partition, fetched: Fetched, offset: int, reading: ReadRequest) -> tuple[list[Record], int]:
    """Return the records from an offset on, within the limits, and the offset after them.

    No more records are decoded than it takes. UnreadableBatch if the first batch with records for the reader is damaged
    or malformed; a later one ends the reading before it.
    """
    found: list[Record] = []
    size = 0
    try:
        for records, after in _slices(partition, fetched, offset):
            for record in records:
                size += record.size_bytes
                if found and (size > reading.bytes_max or len(found) == reading.limit):
                    return found, offset
                found.append(record)
                offset = record.offset + 1
            offset = max(offset, after)
            if len(found) >= reading.limit:
                break
    except UnreadableBatch:
        if not found:
            raise
    return found, offset


def _slices(partition: Partition, fetched: Fetched, offset: int) -> Iterator[tuple[list[Record], int]]:
    """Yield the records that a reader may see from an offset on, and the offset at which it goes on after each part."""
    aborted = Aborted(fetched.aborted or ())
    data = fetched.data
    for position, header in partition.batches(data):
        if aborted.hides(header) or header.is_control:
            partition.verify_batch(data, position, header)
        else:
            is_whole = header.record_count <= SLICE_RECORDS
            for records in partition.open_batch(data, position, header).slices(offset):
                yield records, header.next_offset if is_whole else records[-1].offset + 1
        yield [], header.next_offset
