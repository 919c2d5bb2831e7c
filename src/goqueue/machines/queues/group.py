"""A queue group in memory: its settings, its partitions, and how many messages its consumers hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from goqueue.machines.decision import KeyedRecord
from goqueue.machines.queues.draft import QueueDraft
from goqueue.machines.queues.records import (
    GroupValue,
    PartitionValue,
    done_record,
    flights_record,
    letter_places_record,
    partition_record,
)
from goqueue.machines.queues.values import FlightState
from goqueue.machines.queues.window import Chunk, FlightChange, QueueWindow
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition

# The breaker needs this many settled messages before it looks at the ratio of failures.
_BREAKER_MESSAGES_MIN = 100
_NO_CHUNK = Chunk()


class SettledCounts(NamedTuple):
    """Numbers of messages that were done and that became dead letters."""

    done: int
    failed: int


NOTHING = SettledCounts(0, 0)


class ChunkKey(NamedTuple):
    """A chunk of a partition of a group: the key of deadlines."""

    group: str
    partition: TopicPartition
    chunk: int


class QueueOutcome(msgspec.Struct, frozen=True):
    """The next state of a group; without a value it is deleted.

    `opened` are partitions that start over, or are forgotten with None. `past` is the chunk whose deadlines were
    handled, and `expired` is how many leases ended there.
    """

    group: str
    value: GroupValue | None
    drafts: Mapping[TopicPartition, QueueDraft] = msgspec.field(default_factory=dict)
    opened: Mapping[TopicPartition, QueueWindow | None] = msgspec.field(default_factory=dict)
    tally: SettledCounts = NOTHING
    past: ChunkKey | None = None
    expired: int = 0


class QueueGroup:
    """The state of one queue group; `paused` is the reason of a pause, or empty."""

    def __init__(self, name: str, settings: QueueSettings) -> None:
        self.name = name
        self.value = GroupValue(settings)
        self.settings = settings
        self.paused = ""
        self.windows: dict[TopicPartition, QueueWindow] = {}
        # Leased messages of each consumer; consumers without any are absent.
        self.leases: dict[str, int] = {}
        # Recently settled messages: how many were done, and how many became dead letters.
        self.done = 0
        self.failed = 0
        # Leases that expired since the start, by topic.
        self.expired: Counter[str] = Counter()

    def take(self, value: GroupValue) -> None:
        """Set the stored state of the group itself."""
        if self.paused and not value.paused:
            # A resumed group starts counting failures from zero.
            self.done = self.failed = 0
        self.value = value
        self.settings, self.paused = value.settings, value.paused

    def room(self, consumer: str) -> int:
        """Return how many more messages a consumer may lease."""
        return max(self.settings.in_flight_max - self.leases.get(consumer, 0), 0)

    def count(self, moves: Iterable[FlightChange]) -> None:
        """Count the messages that consumers hold."""
        leases = self.leases
        for offsets, before, after in moves:
            if before is not None and before.state is FlightState.LEASED and before.lease is not None:
                left = leases[before.lease.consumer] - len(offsets)
                if left:
                    leases[before.lease.consumer] = left
                else:
                    del leases[before.lease.consumer]
            if after is not None and after.state is FlightState.LEASED and after.lease is not None:
                leases[after.lease.consumer] = leases.get(after.lease.consumer, 0) + len(offsets)

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        assert self.value == GroupValue(self.settings, self.paused)
        held: dict[str, int] = {}
        for window in self.windows.values():
            window.validate()
            for chunk in window.chunks.values():
                for flight in chunk.flights.values():
                    if flight.state is FlightState.LEASED:
                        assert flight.lease is not None
                        held[flight.lease.consumer] = held.get(flight.lease.consumer, 0) + 1
        assert held == self.leases

    def tally(self, settled: SettledCounts) -> None:
        """Count settled messages; older ones weigh less and less."""
        self.done += settled.done
        self.failed += settled.failed
        if self.done + self.failed > 10 * _BREAKER_MESSAGES_MIN:
            self.done //= 2
            self.failed //= 2

    def breaks(self, settled: SettledCounts) -> str:
        """Return why so many more settled messages must pause the group; empty if they need not."""
        bad, good = self.failed + settled.failed, self.done + settled.done
        total = bad + good
        if not settled.failed or total < _BREAKER_MESSAGES_MIN or bad <= self.settings.breaker_ratio * total:
            return ""
        share = self.settings.breaker_ratio
        return f"{bad} of the last {total} messages became dead letters, more than a share of {share:g}"


def draft_records(group: str, partition: TopicPartition, draft: QueueDraft) -> list[KeyedRecord]:
    """Close a draft, and return its records."""
    draft.close()
    window = draft.window
    records: list[KeyedRecord] = []
    for index, chunk in sorted(draft.changed.items()):
        known = window.chunks.get(index, _NO_CHUNK)
        if chunk.done != known.done:
            records.append(done_record(group, partition, index, chunk.done))
        if index in draft.rewritten or (known.flights and not chunk.flights):
            records.append(flights_record(group, partition, index, chunk.flights))
    for index in draft.forgotten:
        records += chunk_tombstones(group, partition, index)
    if (draft.floor, draft.cursor, draft.epoch) != (window.floor, window.cursor, window.epoch):
        value = PartitionValue(window.topic_id, draft.floor, draft.cursor, draft.epoch)
        records.append(partition_record(group, partition, value))
    if draft.letter_places != window.letter_places:
        records.append(letter_places_record(group, partition, draft.letter_places))
    return records


def chunk_tombstones(group: str, partition: TopicPartition, index: int) -> list[KeyedRecord]:
    """Return the records that forget a chunk."""
    return [done_record(group, partition, index, None), flights_record(group, partition, index, None)]
