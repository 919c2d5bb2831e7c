"""Makes dead letters of messages that cannot be processed, and takes note of it when that is done.

A letter is an ordinary publish, durable before its message is settled: so none is lost, whatever happens in between.
Whoever cannot know whether a letter was written (after a start, or when its message could not be settled) looks for it
among the last letters where it would lie first, so that it is not written twice; also where it would have lain before
the group was told to have its letters elsewhere.

Whatever was delivered can become a letter, however large it is. What cannot be written or read now stays where it is,
and is tried again, and keeps no other back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.events import DeadLettersFailed
from goqueue.broker.letter_search import find_written
from goqueue.broker.message_finder import MessageFinder
from goqueue.broker.messages import Limits, moved_batch, publish_sections
from goqueue.broker.pipeline import INSIDE
from goqueue.broker.produce import Acks, Section
from goqueue.broker.reminders import Reminders
from goqueue.broker.topics import create_topic
from goqueue.errors import Corrupt, GoQueueError, Invalid, LogOffline, TopicExists
from goqueue.machines.deliveries import Deliveries
from goqueue.machines.delivery_commands import Bury, Retreat
from goqueue.machines.delivery_group import QueueGroup
from goqueue.machines.delivery_values import Flight
from goqueue.machines.delivery_window import Window
from goqueue.machines.group_values import TopicPartition
from goqueue.model import dead_letters
from goqueue.model.dead_letters import cause_of, dead_letters_of, letter_places
from goqueue.records.builder import NewRecord
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker, OpenTopic

_AT_ONCE_MAX = 100
_AT_ONCE_BYTES = 4 * 1024 * 1024
# Of each of them so many bytes are in hand.
_PARTITIONS_AT_ONCE = 8
# For what a letter says beside what its message said.
_HEADERS_BYTES = 64 * 1024
# Messages stay dead meanwhile, so this has to be noticed.
_REMIND_EVERY_S = 60.0


class _Gathered(NamedTuple):
    """Dead messages that were looked at, by offset: the leases they died of, letters, and why others cannot be read.

    Whether there are letters of the `doubtful` ones already, nobody knows.
    """

    leases: dict[int, int]
    letters: dict[int, NewRecord]
    doubtful: set[int]
    unreadable: dict[int, GoQueueError]


@dataclass(slots=True)
class _Burial:
    """The dead of a partition in the hands of their task; the `refused` ones cannot be buried now."""

    group: str
    where: TopicPartition
    refused: dict[int, GoQueueError] = field(default_factory=dict)
    finder: MessageFinder | None = None

    def finder_of(self, partition: Partition, window: Window, dead: Sequence[int]) -> MessageFinder:
        """Return who finds dead messages, and knows what was opened of others that lie beside them."""
        if self.finder is None or self.finder.partition is not partition or not self.finder.wants_all(dead):
            self.finder = MessageFinder(partition, window.dead, _AT_ONCE_BYTES)
        return self.finder


class Undertaker:
    """The dead of one partition and group are buried by one task at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Why dead messages could not be buried when that was tried last.
        self.troubles: dict[tuple[str, TopicPartition], str] = {}
        self._under_way: set[tuple[str, TopicPartition]] = set()
        self._turns = asyncio.Semaphore(_PARTITIONS_AT_ONCE)
        # Which of the dead have letters, perhaps, which were written since the start, though they are not settled yet;
        # and to which partition.
        self._unsettled: dict[tuple[str, TopicPartition], dict[int, Partition]] = {}
        self._reminders = Reminders(_REMIND_EVERY_S)

    def look_at_all(self) -> None:
        """Begin to bury whatever is dead; what has failed before is tried again."""
        self._reminders.prune(self._broker.clock.monotonic())
        dying = [which for machine in self._broker.queues.machines for which in machine.dying()]
        self.troubles = {which: self.troubles[which] for which in dying if which in self.troubles}
        busy = {*dying, *self._under_way}
        self._unsettled = {which: sent for which, sent in self._unsettled.items() if sent and which in busy}
        for group, where in dying:
            self._begin(group, where)

    def look(self, machine: Deliveries) -> None:
        """Begin to bury the dead of the groups of a machine, but where that has failed: decisions are many."""
        for group, where in machine.dying():
            if (group, where) not in self.troubles:
                self._begin(group, where)

    def _begin(self, group: str, where: TopicPartition) -> None:
        if (group, where) not in self._under_way:
            self._under_way.add((group, where))
            self._broker.tasks.start(self._bury_all(group, where), f"dead letters of {group}")

    async def _bury_all(self, name: str, where: TopicPartition) -> None:
        burial = _Burial(name, where)
        try:
            while await self._have_turn(burial):
                pass
            if burial.refused:
                # Others may have been told the same, and must not be kept in memory by it.
                raise next(iter(burial.refused.values())).with_traceback(None)
            self.troubles.pop((name, where), None)
        except GoQueueError as error:
            # The messages stay as they are; the next look at all of them tries again.
            self.troubles[name, where] = str(error)
            if self._reminders.is_due((name, where), self._broker.clock.monotonic()):
                self._broker.sink.emit(DeadLettersFailed(name, where.topic, where.partition, str(error)))
        finally:
            self._under_way.discard((name, where))

    async def _have_turn(self, burial: _Burial) -> bool:
        """Bury some of the dead, when there are not too many others who do; tell whether there were any."""
        if self._turns.locked():
            # Whoever waits has nothing in hand.
            burial.finder = None
        async with self._turns:
            return await self._bury_some(burial)

    async def _bury_some(self, burial: _Burial) -> bool:
        """Make letters of some dead messages of a partition; tell whether there were any.

        Those whose letters their topic does not take are put to the refused ones, and left alone.
        """
        name, where, refused = burial.group, burial.where, burial.refused
        group = self._broker.queues.find(name)
        window = None if group is None else group.windows.get(where)
        dead = (
            [] if window is None else list(islice((each for each in window.dead if each not in refused), _AT_ONCE_MAX))
        )
        if group is None or window is None or not dead:
            return False
        homes = [each or dead_letters_of(where.topic) for each in (group.settings.dead_letters, *group.letters_before)]
        # That they are dead has to be durable first: a letter of a message that is delivered again would be a lie. And
        # so has the name of their topic: after a start, nobody would look for it elsewhere.
        flights = [window.find(each) for each in dead]
        await self._broker.queues.machine(name)
        dead = [offset for offset, flight in zip(dead, flights, strict=True) if window.find(offset) == flight]
        if not dead or self._broker.queues.find(name) is not group or group.windows.get(where) is not window:
            # Somebody has moved or deleted the group meanwhile.
            return True
        if window.lost_end is not None:
            # Other messages may lie in the place of dead ones: the group goes back first, for which there was no room.
            await self._broker.queues.submit(name, Retreat(name, where, window.lost_end))
            return True
        found = await self._gather(burial, group, window, dead)
        if not found.leases:
            return False
        refused |= found.unreadable
        if found.letters:
            refused |= await self._write((name, where), homes, found.letters, found.doubtful)
        leases = {offset: lease_id for offset, lease_id in found.leases.items() if offset not in refused}
        await self._broker.queues.submit(name, Bury(name, where, window.topic_id, leases))
        self._forget_unsettled((name, where), leases)
        return True

    async def _gather(self, burial: _Burial, group: QueueGroup, window: Window, dead: Sequence[int]) -> _Gathered:
        """Make letters of dead messages: of no more at once than a bounded number of bytes, opened or written."""
        where = burial.where
        finder = burial.finder_of(self._broker.topic(where.topic).partition(where.partition), window, dead)
        found = _Gathered({}, {}, set(), {})
        unsettled = self._unsettled.get((group.name, where), ())
        size, opened_before = 0, finder.opened_bytes
        flights = [(offset, window.find(offset)) for offset in sorted(dead)]
        for offset, flight in flights:
            if size >= _AT_ONCE_BYTES:
                break
            if found.leases and not finder.is_near(offset):
                if finder.opened_bytes - opened_before >= _AT_ONCE_BYTES:
                    break
                await turns(1)
            if flight is None or flight.lease is None or window.find(offset) != flight:
                # Somebody has moved the group meanwhile.
                continue
            found.leases[offset] = flight.lease.id
            try:
                record = finder.take(offset)
            except Corrupt as error:
                found.unreadable[offset] = error
                continue
            if record is not None:
                size += record.size_bytes
                found.letters[offset] = _letter(group, where, record, flight, self._broker.clock.now_ms())
                if offset in unsettled or flight.lease.id in window.old_leases:
                    found.doubtful.add(offset)
        return found

    async def _write(
        self,
        which: tuple[str, TopicPartition],
        homes: Sequence[str],
        letters: dict[int, NewRecord],
        doubtful: Collection[int],
    ) -> dict[int, GoQueueError]:
        """Write letters, by the offsets of their messages, to the first home; return those that cannot be, and why.

        Raises what may be better later for all of them.
        """
        _, where = which
        target = await self._target(homes[0], where)
        letters, unknown = await self._unwritten(which, homes, letters, doubtful)
        if not letters:
            return unknown
        # Nobody need ever look for letters in a partition that takes none.
        partition = _destination(target, where)
        self._unsettled.setdefault(which, {}).update(dict.fromkeys(letters, partition))
        outcomes = await self._publish(partition, list(letters.values()))
        refused = {offset: error for offset, error in zip(letters, outcomes, strict=True) if error is not None}
        for error in refused.values():
            if not isinstance(error, Invalid):
                raise error
        self._forget_unsettled(which, refused)
        return unknown | refused

    def _forget_unsettled(self, which: tuple[str, TopicPartition], offsets: Iterable[int]) -> None:
        unsettled = self._unsettled.get(which, {})
        for offset in offsets:
            unsettled.pop(offset, None)

    async def _unwritten(
        self,
        which: tuple[str, TopicPartition],
        homes: Sequence[str],
        letters: dict[int, NewRecord],
        doubtful: Collection[int],
    ) -> tuple[dict[int, NewRecord], dict[int, GoQueueError]]:
        """Leave out letters that were written before, to any home; also return those of which nobody can tell, and why.

        These have to wait, alone.
        """
        causes = {offset: cause_of(letters[offset].headers) for offset in doubtful}
        written, obstacle = await find_written(self._places(homes, which[1]), set(causes.values()))
        left = {offset: letter for offset, letter in letters.items() if causes.get(offset) not in written}
        sent = self._unsettled.get(which, {})
        unknown = {
            offset: error
            for offset in left
            if offset in causes and (error := obstacle or _doubt_about(sent.get(offset))) is not None
        }
        return {offset: letter for offset, letter in left.items() if offset not in unknown}, unknown

    def _places(self, homes: Sequence[str], where: TopicPartition) -> Iterator[Partition | GoQueueError]:
        """Yield where letters may lie, or why a place cannot be looked at."""
        for opened in [self._broker.topics[name] for name in homes if name in self._broker.topics]:
            yield from (opened.partitions[index] for index in letter_places(where.partition, len(opened.partitions)))

    async def _target(self, name: str, where: TopicPartition) -> OpenTopic:
        if name not in self._broker.topics:
            source = self._broker.topic(where.topic)
            config = {
                "retention.ms": str(dead_letters.RETENTION_MS),
                "max.message.bytes": str(source.settings.log.max_message_bytes + _HEADERS_BYTES),
            }
            with suppress(TopicExists):
                await create_topic(self._broker, INSIDE, name, partitions=len(source.partitions), config=config)
        return self._broker.topic(name)

    async def _publish(self, partition: Partition, letters: Sequence[NewRecord]) -> Sequence[GoQueueError | None]:
        """Publish letters, each by itself; return what has kept each of them from it."""
        bytes_max = partition.settings.log.max_message_bytes
        sections = [Section(partition, moved_batch([letter], bytes_max)) for letter in letters]
        outcomes = await publish_sections(self._broker, INSIDE, Acks.ALL, sections, limits=Limits.NONE)
        return [outcome if isinstance(outcome, GoQueueError) else None for outcome in outcomes]


def _destination(target: OpenTopic, where: TopicPartition) -> Partition:
    """Return where new letters of a partition go; Unavailable if they cannot go there now."""
    partition = target.partition(letter_places(where.partition, len(target.partitions))[0])
    if partition.log.fault:
        raise _offline(partition)
    return partition


def _doubt_about(partition: Partition | None) -> GoQueueError | None:
    """Return why a letter that was sent to a partition, and is not there, may be there after the next start."""
    return None if partition is None or partition.gone or not partition.log.fault else _offline(partition)


def _offline(partition: Partition) -> LogOffline:
    return LogOffline(f"{partition.topic}-{partition.index} takes no writes: {partition.log.fault}")


def _letter(group: QueueGroup, where: TopicPartition, record: Record, flight: Flight, now_ms: int) -> NewRecord:
    cause = {
        dead_letters.REASON_HEADER: flight.reason,
        dead_letters.ERROR_HEADER: flight.error,
        dead_letters.ATTEMPTS_HEADER: flight.deliveries,
        dead_letters.FIRST_DELIVERY_HEADER: flight.first_ms,
        dead_letters.LAST_DELIVERY_HEADER: -1 if flight.lease is None else flight.lease.since_ms,
        dead_letters.CONSUMER_HEADER: "" if flight.lease is None else flight.lease.consumer,
        dead_letters.GROUP_HEADER: group.name,
        dead_letters.TOPIC_HEADER: where.topic,
        dead_letters.PARTITION_HEADER: where.partition,
        dead_letters.OFFSET_HEADER: record.offset,
        dead_letters.TIMESTAMP_HEADER: record.timestamp,
    }
    # A letter that died before says why it is here now; what it said then is of no use any more.
    kept = [(name, value) for name, value in record.headers if name not in cause]
    told = [(name, str(value).encode("utf-8", "surrogateescape")) for name, value in cause.items()]
    return NewRecord(now_ms, record.key, record.value, [*kept, *told])
