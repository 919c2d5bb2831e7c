"""Publishing single messages, for those who build no batches themselves.

Messages are sorted into partitions, each partition's share is packed into batches, and these go the way of every
publish (`produce`), where they are admitted and counted. A message that cannot be stored fails alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from goqueue.broker.messages.produce import Acks, Publish, Section, publish
from goqueue.broker.topics.admin import ensure_topic
from goqueue.errors import (
    GoQueueError,
    TooLarge,
    TopicProtected,
)
from goqueue.model.partitioners import RoundRobin, murmur2_partition
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import HEADER_BYTES
from goqueue.records.reader import DECOMPRESSED_BYTES_MAX
from goqueue.runtime import waiters
from goqueue.runtime.partition import Outcome, Partition
from goqueue.runtime.waiters import hand_over, pause, pieces

if TYPE_CHECKING:
    from goqueue.broker.admission import Caller
    from goqueue.broker.messages.service import MessageService
    from goqueue.broker.topics.open_topic import OpenTopic

T = TypeVar("T")

KEY_BYTES_MAX = 64 * 1024
HEADERS_BYTES_MAX = 64 * 1024

# What the numbers of a record, and of each of its headers, take at most.
_RECORD_OVERHEAD = 40
_HEADER_OVERHEAD = 10
# Hashing takes about 60 ns per byte: more than this is done beside the loop.
_HASHED_ON_LOOP_BYTES = 256 * 1024


class MessageLimits(Enum):
    """How large messages may be.

    | limits | who publishes                                                 | key, headers | max.message.bytes     |
    |--------|---------------------------------------------------------------|--------------|-----------------------|
    | CLIENT | a client                                                      | as above     | holds                 |
    | TOPIC  | the broker, of what it took somewhere else                    | of any size  | holds when compressed |
    | NONE   | the broker, of what it took once, to where that has its place | of any size  | is no matter          |
    """

    CLIENT = "client"
    TOPIC = "topic"
    NONE = "none"


class NewMessage(NamedTuple):
    """A message to publish. Without a timestamp (milliseconds since 1970) it gets the time of now."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp: int | None = None


# Calling the class goes through a Python function, which would take a third of the whole translation.
new_message: Callable[[tuple[object, ...]], NewMessage] = partial(tuple.__new__, NewMessage)
_new_record: Callable[[tuple[object, ...]], NewRecord] = partial(tuple.__new__, NewRecord)


class PublishedMessage(NamedTuple):
    """Where a message is, and its timestamp."""

    partition: int
    offset: int
    timestamp: int


_published: Callable[[tuple[int, int, int]], PublishedMessage] = partial(tuple.__new__, PublishedMessage)
Fate = PublishedMessage | GoQueueError


class PartitionTurns:
    """Which partition of each topic gets the next batch of messages without a key."""

    def __init__(self) -> None:
        self._by_topic: dict[UUID, RoundRobin] = {}

    def __len__(self) -> int:
        return len(self._by_topic)

    def next_partition(self, service: MessageService, opened: OpenTopic) -> int:
        """Return whose turn it is among the partitions that take writes; any, if none does."""
        turn = self._by_topic.get(opened.topic.id) or self._begin(service, opened.topic.id)
        count = len(opened.partitions)
        for _ in range(count):
            index = turn.next_partition(count)
            candidate = opened.partitions[index]
            if isinstance(candidate, Partition) and not candidate.log.fault:
                break
        return index

    def _begin(self, service: MessageService, topic_id: UUID) -> RoundRobin:
        if len(self._by_topic) > 2 * len(service.topics.by_id):
            # Most of these topics were deleted.
            self._by_topic = {each: turn for each, turn in self._by_topic.items() if each in service.topics.by_id}
        turn = self._by_topic[topic_id] = RoundRobin()
        return turn


@dataclass(slots=True)
class PartitionShare:
    """What one partition gets: the messages' numbers in the request, their records, and how large these may be."""

    numbers: list[int] = field(default_factory=list)
    records: list[NewRecord] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def parts(self, batch_bytes_max: int) -> Sequence[PartitionShare]:
        """Return what fits into one batch each: all of it at once, or as much as the topic allows."""
        if HEADER_BYTES + sum(self.sizes) <= batch_bytes_max:
            return [self]
        parts = []
        first = 0
        room = batch_bytes_max - HEADER_BYTES
        for number, size in enumerate(self.sizes):
            if size > room and number > first:
                parts.append(self._part(first, number))
                first = number
                room = batch_bytes_max - HEADER_BYTES
            room -= size
        parts.append(self._part(first, len(self.sizes)))
        return parts

    def _part(self, start: int, end: int) -> PartitionShare:
        return PartitionShare(self.numbers[start:end], self.records[start:end], self.sizes[start:end])


class SortedMessages(NamedTuple):
    """The messages of a request by partition, and the fates of those that go nowhere."""

    shares: dict[int, PartitionShare]
    fates: list[Fate | None]

    def settle(self, index: int, share: PartitionShare, outcome: Outcome) -> None:
        """Tell messages of one partition what became of them."""
        fates = self.fates
        if isinstance(outcome, GoQueueError):
            for number in share.numbers:
                fates[number] = outcome
            return
        offset = outcome.base_offset
        is_stamped = outcome.timestamp >= 0
        for number, record in zip(share.numbers, share.records, strict=True):
            fates[number] = _published((index, offset, outcome.timestamp if is_stamped else record[0]))
            offset += 1

    def all_fates(self) -> list[Fate]:
        """Return what became of each message, once all are settled."""
        return [fate for fate in self.fates if fate is not None]


async def publish_messages(
    service: MessageService,
    caller: Caller,
    turns: PartitionTurns,
    topic: str,
    messages: Sequence[NewMessage | GoQueueError],
    acks: Acks,
) -> list[Fate]:
    """Publish messages to a topic, which is made if the broker may; return the fate of each, in their order.

    What stands in the place of a message that the caller could not read is its fate. Raises what concerns the topic.
    """
    opened = await open_for_writing(service, caller, topic)
    found = await sort_messages(service, turns, opened, messages)
    sections: list[Section] = []
    numbers = []
    for index, share in found.shares.items():
        try:
            partition = opened.partition(index)
        except GoQueueError as error:
            found.settle(index, share, error)
            continue
        batches: list[bytearray] = []
        for part in share.parts(opened.settings.log.max_message_bytes):
            if batches or sections or len(part.records) > waiters.LONG_ITEMS:
                # To build a large batch takes some milliseconds.
                await waiters.give_way()
            batches.append(build_batch(part.records))
        sections.append(Section(partition, batches[0] if len(batches) == 1 else bytearray().join(batches)))
        numbers.append(index)
    if sections:
        if len(messages) > waiters.LONG_ITEMS:
            await waiters.give_way()
        outcomes = await publish_sections(service, caller, acks, sections)
        if len(messages) > waiters.LONG_ITEMS:
            await waiters.give_way()
        for index, outcome in zip(numbers, outcomes, strict=True):
            found.settle(index, found.shares[index], outcome)
    return found.all_fates()


async def open_for_writing(service: MessageService, caller: Caller, topic: str) -> OpenTopic:
    """Return a topic that anybody may write to, made if the broker may; TopicProtected if it is the broker's own."""
    opened = service.topics.by_name.get(topic) or await ensure_topic(service.topics, caller, topic)
    if opened.topic.is_internal:
        raise TopicProtected(f"{topic!r} holds the broker's own state, and nobody else writes to it")
    return opened


async def sort_messages(
    service: MessageService,
    turns: PartitionTurns,
    opened: OpenTopic,
    messages: Sequence[NewMessage | GoQueueError],
    limits: MessageLimits = MessageLimits.CLIENT,
) -> SortedMessages:
    """Return what each partition gets; of messages that clients may not send, why."""
    fates: list[Fate | None] = [None] * len(messages)
    is_limited = limits is MessageLimits.CLIENT
    chosen = await _choose(service, turns, opened, messages, is_limited=is_limited)
    shares: dict[int, PartitionShare] = {}
    now_ms = service.core.clock.now_ms()
    for start, piece in pieces(messages):
        if start:
            await pause(messages)
        _share_out(opened, piece, start, chosen, now_ms, shares, fates, is_limited=is_limited)
    return SortedMessages(shares, fates)


async def _choose(
    service: MessageService,
    turns: PartitionTurns,
    opened: OpenTopic,
    messages: Sequence[NewMessage | GoQueueError],
    *,
    is_limited: bool,
) -> Sequence[int]:
    """Return the partition of each message; all without a key share one, and the next request has the next turn."""
    key_bytes = 0
    needs_turn = False
    for message in messages:
        if isinstance(message, NewMessage) and message.partition is None:
            if message.key is None:
                needs_turn = True
            else:
                key_bytes += len(message.key)
    turn = turns.next_partition(service, opened) if needs_turn else 0
    count = len(opened.partitions)
    if key_bytes > _HASHED_ON_LOOP_BYTES:
        choose = partial(_chosen, messages, count, turn, is_limited=is_limited)
        return await asyncio.get_running_loop().run_in_executor(service.core.threads, choose)
    chosen: list[int] = []
    for start, piece in pieces(messages):
        if start:
            await pause(messages)
        chosen += _chosen(piece, count, turn, is_limited=is_limited)
    return chosen


def _chosen(messages: Sequence[NewMessage | GoQueueError], count: int, turn: int, *, is_limited: bool) -> list[int]:
    chosen = []
    for message in messages:
        if isinstance(message, GoQueueError):
            chosen.append(turn)
            continue
        key, _, _, partition, _ = message
        if partition is not None:
            chosen.append(partition)
        elif key is None or (is_limited and len(key) > KEY_BYTES_MAX):
            # One with such a key goes nowhere.
            chosen.append(turn)
        else:
            chosen.append(murmur2_partition(key, count))
    return chosen


def _share_out(
    opened: OpenTopic,
    messages: Sequence[NewMessage | GoQueueError],
    first: int,
    chosen: Sequence[int],
    now_ms: int,
    shares: dict[int, PartitionShare],
    fates: list[Fate | None],
    *,
    is_limited: bool,
) -> None:
    """Sort messages, from number `first` on, by partition; those that cannot be stored get their fate instead."""
    batch_bytes_max = opened.settings.log.max_message_bytes
    # No limit can be exceeded below the smallest of them.
    unsuspicious_bytes = min(batch_bytes_max - HEADER_BYTES, KEY_BYTES_MAX, HEADERS_BYTES_MAX) if is_limited else inf
    for number, message in enumerate(messages, first):
        if isinstance(message, GoQueueError):
            fates[number] = message
            continue
        key, value, headers, _, timestamp = message
        size = _RECORD_OVERHEAD + (0 if key is None else len(key)) + (0 if value is None else len(value))
        if headers:
            size += sum(len(name.encode()) + len(text or b"") + _HEADER_OVERHEAD for name, text in headers)
        record = _new_record((now_ms if timestamp is None else timestamp, key, value, headers))
        if size > unsuspicious_bytes and (fault := _fault(record, size, batch_bytes_max)) is not None:
            fates[number] = fault
            continue
        share = shares.get(chosen[number])
        if share is None:
            share = shares[chosen[number]] = PartitionShare()
        share.numbers.append(number)
        share.records.append(record)
        share.sizes.append(size)


def _fault(record: NewRecord, size: int, batch_bytes_max: int) -> GoQueueError | None:
    if record.key is not None and len(record.key) > KEY_BYTES_MAX:
        return TooLarge(f"the key has {len(record.key)} bytes, at most {KEY_BYTES_MAX} are taken")
    headers_bytes = sum(len(name.encode()) + len(text or b"") for name, text in record.headers)
    if headers_bytes > HEADERS_BYTES_MAX:
        return TooLarge(f"the headers have {headers_bytes} bytes, at most {HEADERS_BYTES_MAX} are taken")
    # The size is an upper bound. Only a message that it speaks against is built to see.
    if size + HEADER_BYTES > batch_bytes_max and (exact := len(build_batch([record]))) > batch_bytes_max:
        return TooLarge(
            f"the message takes {exact} bytes, the topic's max.message.bytes is {batch_bytes_max}",
            hint="make it smaller, or raise max.message.bytes of the topic",
        )
    return None


async def publish_sections(
    service: MessageService,
    caller: Caller,
    acks: Acks,
    sections: Sequence[Section],
    transactional_id: str | None = None,
    limits: MessageLimits = MessageLimits.CLIENT,
) -> Sequence[Outcome]:
    """Publish one request; return the outcomes of its sections once its terms are met.

    Appended before the first pause, so whoever looked at the partitions just before knows how they stand.
    """
    settled: asyncio.Future[Sequence[Outcome]] = asyncio.get_running_loop().create_future()
    request = Publish(acks, sections, partial(hand_over, settled), transactional_id)
    publish(service, caller, [request], is_moved=limits is MessageLimits.NONE)
    return await settled


def moved_batch(records: Sequence[NewRecord], batch_bytes_max: int, **fields: Any) -> bytearray:
    """Return a batch of what the broker took before, compressed if it would be too large for a topic otherwise.

    What nobody would open if it was compressed is not: headers may have made it larger than that.
    """
    batch = build_batch(records, **fields)
    if len(batch) <= batch_bytes_max or len(batch) - HEADER_BYTES > DECOMPRESSED_BYTES_MAX:
        return batch
    # The codec that takes the least time: this is done on the loop.
    return build_batch(records, codec=Codec.LZ4, **fields)
