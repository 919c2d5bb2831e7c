"""Groups that retention is about to overtake: what they have not read is held back, if the topic wants that, and their
owners are warned.

Nothing of this is stored: who has read what is known to the groups, and what retention would delete to the logs. All
committed offsets are looked at every few seconds, less often if there are so many that it takes long. What lies beyond
the reach of retention until then is not looked at; in topics that hold back it stays until it has been. So does all of
a topic that is new or has new settings: only a verdict under the settings of now lets anything go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from goqueue.broker.events import ExpiryHeld, HoldExceeded, RetentionNear, RetentionOvertook
from goqueue.broker.reminders import Reminders
from goqueue.broker.slices import CutShort, Slices
from goqueue.broker.topics.retention_risk import Risk, leaving_of, leaving_soon, risk_of
from goqueue.log import retention
from goqueue.log.log import Log
from goqueue.log.retention import DuePartition, DueSegment, Leaving, can_reach, limit_retention
from goqueue.model.groups import Danger
from goqueue.model.topic import TopicPartition
from goqueue.model.topic_settings import TopicSettings
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.topics.service import TopicService

LOOK_EVERY_S = 5.0
_LOOK_EVERY_S_MAX = 600.0
# A look takes at most a fiftieth of the time.
_REST_PER_LOOK = 50
# When something waits for a look, the rest is so many times shorter.
_SOONER = 10
# What is to be done for a partition, in pieces of a slice.
_PIECES_OF_A_PARTITION = 10
_WARNINGS_AT_A_TIME = 100
_TROUBLES_MAX = 10_000
_NAMED_MAX = 5
UNKNOWN_GROUPS = "(groups that cannot be loaded)"
"""Who things are held back for when the log of some groups cannot be used."""


class Reader(NamedTuple):
    """A group that goes on at an offset.

    It was heard when it committed anything of the topic last; now, if it has members that read the topic, or is a queue
    group.
    """

    group: str
    partition: TopicPartition
    offset: int
    heard_ms: int


class ReaderSource(Protocol):
    """What knows the readers of all topics."""

    @property
    def is_whole(self) -> bool:
        """Whether it knows all of them."""
        ...

    def readers_before(self, ends: Mapping[TopicPartition, int], slices: Slices) -> AsyncGenerator[Reader, None]:
        """Yield the groups that have committed an offset before the given one, for each of the given partitions."""
        ...


class _Limit(NamedTuple):
    """The offset before which records may expire, as long as the topic has these settings."""

    settings: TopicSettings
    expires_before: int


@dataclass(slots=True)
class _Reached:
    """A partition that retention reaches up to an offset before it is looked at again, and who is slowest there.

    `end_offset` is 0 if retention cannot reach it.
    """

    partition: Partition
    leaving: list[Leaving]
    end_offset: int
    first_unread: int
    group: str = ""


@dataclass(slots=True)
class _Topic:
    settings: TopicSettings
    reached: dict[int, _Reached] = field(default_factory=dict)


@dataclass(slots=True)
class _Trouble:
    """Where it is worst for a group in a topic, and in how many partitions there is trouble."""

    partition: Partition
    offset: int
    risk: Risk
    partitions: int = 1

    def add(self, other: _Trouble) -> None:
        self.partitions += 1
        if _severity(other.risk) > _severity(self.risk):
            self.partition, self.offset, self.risk = other.partition, other.offset, other.risk


class RetentionWatch:
    """Watches over the readers of one broker; see `runtime/maintenance.RetentionHolds` for when it is asked what."""

    def __init__(self, service: TopicService) -> None:
        self._service = service
        self._looking = asyncio.Lock()
        self._looked_at: float | None = None
        self._rest_s = LOOK_EVERY_S
        self._is_awaited = False
        self._is_stopped = False
        self._limits: Mapping[Log, _Limit] = {}
        # Whose logs they are, as of a revision of the broker.
        self._partitions: Mapping[Log, Partition] = {}
        self._revision = -1
        self._reminders = Reminders()
        self.held_bytes: Mapping[str, int] = {}
        """How much each topic keeps beyond its retention; topics that hold nothing back are left out."""

    def expires_before(self, log: Log) -> int | None:
        """Return the offset before which records of a log may expire; None if all of them may."""
        if self._revision != self._service.revision:
            self._revision = self._service.revision
            self._partitions = {partition.log: partition for partition in self._service.partitions}
        partition = self._partitions.get(log)
        return None if partition is None else self._expires_before(partition)

    def _expires_before(self, partition: Partition) -> int | None:
        if partition.is_internal or not partition.settings.hold_bytes:
            return None
        limit = self._limits.get(partition.log)
        if limit is not None and limit.settings is partition.settings:
            return limit.expires_before
        # Retention may reach what nobody has looked at. A log with a fault is not looked at, and loses nothing.
        self._is_awaited |= not partition.log.fault
        return partition.log.start_offset

    def risk_of(self, partition: Partition, offset: int) -> Risk:
        """Return how a reader stands with retention that goes on at an offset."""
        leaving = leaving_of(partition, self._service.core.clock.now_ms())
        return risk_of(partition, offset, leaving, self._expires_before(partition))

    async def look(self) -> None:
        """Look at all readers, unless that was done a moment ago; then hold back and warn."""
        async with self._looking:
            began = self._service.core.clock.monotonic()
            rest_s = self._rest_s / _SOONER if self._is_awaited else self._rest_s
            if self._is_stopped or (self._looked_at is not None and began - self._looked_at < rest_s):
                return
            self._looked_at = began
            self._is_awaited = False
            # What a look costs goes by the loop's own time, which no test moves.
            slices = Slices(asyncio.get_running_loop().time, lambda: self._is_stopped)
            with suppress(CutShort):
                await self._look(slices)
            self._rest_s = min(max(LOOK_EVERY_S, slices.busy_s * _REST_PER_LOOK), _LOOK_EVERY_S_MAX)

    def stop(self) -> None:
        """Look no more; a look under way ends soon, and changes nothing."""
        self._is_stopped = True

    async def _look(self, slices: Slices) -> None:
        now_ms = self._service.core.clock.now_ms()
        topics = await self._reach(now_ms, slices)
        ends = {
            TopicPartition(name, index): reached.end_offset
            for name, topic in topics.items()
            for index, reached in topic.reached.items()
            if reached.end_offset
        }
        troubles: dict[tuple[str, str], _Trouble] = {}
        if ends:
            async with aclosing(self._service.readers.readers_before(ends, slices)) as readers:
                async for reader in readers:
                    topic = topics[reader.partition.topic]
                    reached = topic.reached[reader.partition.partition]
                    # Whoever is not heard of any more is warned all the same: there may be somebody to start it again.
                    if now_ms - reader.heard_ms <= topic.settings.hold_ms and reader.offset < reached.first_unread:
                        reached.first_unread, reached.group = reader.offset, reader.group
                    _note(reader, reached, troubles)
        await self._hold(topics, now_ms, slices)
        self._warn(troubles)

    async def _reach(self, now_ms: int, slices: Slices) -> Mapping[str, _Topic]:
        """Find out how far retention will reach until the next look and, to warn in time, a while beyond."""
        found: dict[str, _Topic] = {}
        # Nobody knows how far these groups are, so nothing they may read is deleted while it can be kept.
        is_blind = not self._service.readers.is_whole
        for partition in list(self._service.partitions):
            if slices.note(_PIECES_OF_A_PARTITION):
                await slices.give_way()
            log = partition.log
            is_reachable = can_reach(log.settings)
            # What cannot be reached is of interest in case that its settings change.
            if partition.is_internal or log.fault or not (is_reachable or partition.settings.hold_bytes):
                continue
            if log.end_offset == 0 and not partition.settings.hold_bytes:
                continue
            leaving = leaving_soon(partition, now_ms)
            end = max([log.start_offset, *(each.segment.next_offset for each in leaving[-1:])])
            reached = _Reached(partition, leaving, end if is_reachable else 0, end)
            if is_blind:
                reached.first_unread, reached.group = log.start_offset, UNKNOWN_GROUPS
            found.setdefault(partition.topic, _Topic(partition.settings)).reached[partition.index] = reached
        return found

    # -- holding back

    async def _hold(self, topics: Mapping[str, _Topic], now_ms: int, slices: Slices) -> None:
        limits: dict[Log, _Limit] = {}
        held_bytes: dict[str, int] = {}
        for name, topic in topics.items():
            budget_bytes = topic.settings.hold_bytes
            if not budget_bytes:
                continue
            reached = list(topic.reached.values())
            due: list[DuePartition] = []
            for each in reached:
                due.append(_due(each, now_ms))
                if slices.note(_PIECES_OF_A_PARTITION + len(due[-1].segments)):
                    await slices.give_way()
            verdicts = limit_retention(due, budget_bytes)
            for each, verdict in zip(reached, verdicts, strict=True):
                limits[each.partition.log] = _Limit(topic.settings, verdict.expires_before)
            held_bytes[name] = sum(verdict.held_bytes for verdict in verdicts)
            unread_bytes = sum(verdict.unread_bytes for verdict in verdicts)
            slowest = [
                each.group
                for each, verdict in zip(reached, verdicts, strict=True)
                if verdict.held_bytes or verdict.unread_bytes
            ]
            self._report_hold(name, slowest, budget_bytes, held_bytes[name], unread_bytes)
        self._limits, self.held_bytes = limits, held_bytes

    def _report_hold(
        self, topic: str, slowest: Iterable[str], budget_bytes: int, held_bytes: int, unread_bytes: int
    ) -> None:
        now = self._service.core.clock.monotonic()
        names = sorted(set(map(_shown, slowest)))
        groups = ", ".join(names[:_NAMED_MAX]) + (", ..." if len(names) > _NAMED_MAX else "")
        if held_bytes and self._reminders.is_due((ExpiryHeld, topic), now):
            self._service.core.sink.emit(ExpiryHeld(topic, groups, held_bytes, budget_bytes))
        if unread_bytes and self._reminders.is_due((HoldExceeded, topic), now):
            self._service.core.sink.emit(HoldExceeded(topic, groups, unread_bytes, budget_bytes))

    # -- warning

    def _warn(self, troubles: Mapping[tuple[str, str], _Trouble]) -> None:
        now = self._service.core.clock.monotonic()
        self._reminders.prune(now)
        # What is left over comes with the next look.
        left = _WARNINGS_AT_A_TIME
        for (group, topic), trouble in sorted(troubles.items(), key=lambda item: _severity(item[1].risk), reverse=True):
            kind = RetentionOvertook if trouble.risk.danger is Danger.LOST else RetentionNear
            if left and self._reminders.is_due((kind, group, topic), now):
                self._service.core.sink.emit(self._event(group, topic, trouble))
                left -= 1

    def _event(self, group: str, topic: str, trouble: _Trouble) -> RetentionNear | RetentionOvertook:
        group, index = _shown(group), trouble.partition.index
        if trouble.risk.danger is Danger.LOST:
            return RetentionOvertook(group, topic, index, trouble.partitions, trouble.risk.lost)
        # Whether it is held back is decided by now.
        is_held = self.risk_of(trouble.partition, trouble.offset).danger is Danger.HELD
        return RetentionNear(group, topic, index, trouble.partitions, (trouble.risk.left_ms or 0) // 1000, is_held)


def _note(reader: Reader, reached: _Reached, troubles: dict[tuple[str, str], _Trouble]) -> None:
    risk = risk_of(reached.partition, reader.offset, reached.leaving, None)
    if risk.danger is Danger.NONE:
        return
    if risk.danger is Danger.LOST and reached.partition.starts_by_request:
        # An administrator who deletes records knows that they are gone.
        return
    trouble = _Trouble(reached.partition, reader.offset, risk)
    key = reader.group, reader.partition.topic
    if key in troubles:
        troubles[key].add(trouble)
    elif len(troubles) < _TROUBLES_MAX:
        troubles[key] = trouble


def _due(reached: _Reached, now_ms: int) -> DuePartition:
    log = reached.partition.log
    if log.is_unopened:
        # If anything of it were due, the look at what leaves soon would have woken it.
        return DuePartition([], reached.first_unread)
    due = retention.expired(log.segments, log.settings, now_ms, end_offset=log.durable_end)
    return DuePartition(
        [DueSegment(segment.next_offset, segment.size, segment.max_timestamp) for segment in due], reached.first_unread
    )


def _severity(risk: Risk) -> tuple[int, int]:
    return risk.lost, -(risk.left_ms or 0)


def _shown(name: str) -> str:
    """Return a name as text: clients may have chosen bytes that are none."""
    return name.encode("utf-8", "backslashreplace").decode()
