"""Makes dead letters of messages that cannot be processed, and takes note of it when that is done.

A letter is an ordinary publish, durable before its message is settled: so none is lost, whatever happens in between.
Where letters will lie is stored before the first one is written. So whoever cannot know whether one was (after a start,
or when its message could not be settled) can look for it there, and none is written twice.

Whatever was delivered can become a letter, however large it is. A message that cannot be read becomes a letter that
carries its stored batch as it is, and says why (`unreadable_letters`). What cannot be written now stays where it is, is
tried again, and keeps no other back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from goqueue.broker.admission import INSIDE
from goqueue.broker.dead_letters.unconfirmed import Dead, Leases, Letters, UnconfirmedDeadLetters
from goqueue.broker.dead_letters.unreadable import cause_headers, unreadable_letter
from goqueue.broker.events import DeadLettersFailed
from goqueue.broker.messages.finder import MessageFinder
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import MessageLimits, moved_batch, publish_sections
from goqueue.broker.reminders import Reminders
from goqueue.broker.topics.admin import create_topic
from goqueue.errors import Corrupt, GoQueueError, Invalid, TopicExists, Unavailable
from goqueue.machines.queues.commands import MarkDeadLettered, Retreat
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.machine import QueueMachine
from goqueue.machines.queues.steps import died_of
from goqueue.machines.queues.values import Flight, LetterPlace
from goqueue.machines.queues.window import QueueWindow
from goqueue.model import dead_letters
from goqueue.model.dead_letters import dead_letters_of
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord
from goqueue.records.reader import Record
from goqueue.runtime.partition import Appended, Partition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.dead_letters.service import DeadLetterService

_AT_ONCE_MAX = 100
_AT_ONCE_BYTES = 4 * 1024 * 1024
# Of each of them so many bytes are in hand.
_PARTITIONS_AT_ONCE = 8
# For what a letter says beside what its message said.
_HEADERS_BYTES = 64 * 1024
# Messages stay dead meanwhile, so this has to be noticed.
_REMIND_EVERY_S = 60.0
# What cannot be buried is tried again after so many times the time that it took in vain: there may be very many.
_REST_FACTOR = 10
_REST_S_MAX = 60.0


class _Gathered(NamedTuple):
    """Dead messages that were looked at, by offset: the leases they died of, and their letters."""

    leases: dict[int, int]
    letters: Letters


class _Target(NamedTuple):
    """Where letters go: a partition of a topic."""

    topic_id: UUID
    partition: Partition

    def place(self) -> LetterPlace:
        """Return where those will lie that are written from now on."""
        return LetterPlace(self.topic_id, self.partition.index, self.partition.log.end_offset)


@dataclass(slots=True)
class _Burial:
    """The dead of a partition in the hands of their task; the `refused` ones cannot be buried now.

    Since `got_on_at` (monotonic) all was in vain. In the `row` are those who were dead when it was made.
    """

    group: str
    where: TopicPartition
    got_on_at: float
    refused: dict[int, GoQueueError] = field(default_factory=dict)
    row: deque[int] = field(default_factory=deque)
    finder: MessageFinder | None = None

    @property
    def which(self) -> Dead:
        """Whose dead they are, and where."""
        return self.group, self.where

    def next_dead(self, window: QueueWindow) -> list[int]:
        """Return some of the dead that can perhaps be buried. Nobody goes through all of the others each time."""
        while self.row and not self._is_left(window, self.row[0]):
            self.row.popleft()
        self.row = self.row or deque(each for each in window.dead if each not in self.refused)
        return list(islice((each for each in self.row if self._is_left(window, each)), _AT_ONCE_MAX))

    def _is_left(self, window: QueueWindow, offset: int) -> bool:
        return offset in window.dead and offset not in self.refused

    def finder_of(self, partition: Partition, window: QueueWindow, dead: Sequence[int]) -> MessageFinder:
        """Return who finds dead messages, and knows what was opened of others that lie beside them."""
        if self.finder is None or self.finder.partition is not partition or not self.finder.wants_all(dead):
            self.finder = MessageFinder(partition, frozenset(window.dead), _AT_ONCE_BYTES)
        return self.finder


class DeadLetterWriter:
    """The dead of one partition and group are buried by one task at a time."""

    def __init__(self, service: DeadLetterService) -> None:
        self._service = service
        self._resting_until: dict[Dead, float] = {}
        self._under_way: set[Dead] = set()
        self._turns = asyncio.Semaphore(_PARTITIONS_AT_ONCE)
        self._doubts = UnconfirmedDeadLetters(service)
        self._reminders = Reminders(_REMIND_EVERY_S)

    def look_at_all(self) -> None:
        """Begin to bury whatever is dead; what has failed before is tried again, if it has not taken long."""
        now = self._service.core.clock.monotonic()
        self._reminders.prune(now)
        dying = [which for machine in self._service.queues.machines for which in machine.dying()]
        self._service.queues.dead_letter_troubles = {
            which: self._service.queues.dead_letter_troubles[which]
            for which in dying
            if which in self._service.queues.dead_letter_troubles
        }
        self._resting_until = {which: until for which, until in self._resting_until.items() if until > now}
        self._doubts.prune({*dying, *self._under_way})
        for which in dying:
            if which not in self._resting_until:
                self._begin(which)

    def look(self, machine: QueueMachine) -> None:
        """Begin to bury the dead of the groups of a machine, but where that has failed: decisions are many."""
        for which in machine.dying():
            if which not in self._service.queues.dead_letter_troubles:
                self._begin(which)

    def _begin(self, which: Dead) -> None:
        if which not in self._under_way:
            self._under_way.add(which)
            self._service.core.tasks.start(self._bury_all(which), f"dead letters of {which[0]}")

    async def _bury_all(self, which: Dead) -> None:
        name, where = which
        burial = _Burial(name, where, self._service.core.clock.monotonic())
        self._doubts.look_again(which)
        try:
            while await self._have_turn(burial):
                # Of very many it may be known at once that they cannot be buried: others have a turn in between.
                await turns(1)
            if burial.refused:
                # Others may have been told the same, and must not be kept in memory by it.
                raise next(iter(burial.refused.values())).with_traceback(None)
            self._service.queues.dead_letter_troubles.pop(which, None)
        except GoQueueError as error:
            # The messages stay as they are; a later look at all of them tries again.
            now = self._service.core.clock.monotonic()
            self._service.queues.dead_letter_troubles[which] = str(error)
            self._resting_until[which] = now + min((now - burial.got_on_at) * _REST_FACTOR, _REST_S_MAX)
            if self._reminders.is_due(which, now):
                self._service.core.sink.emit(DeadLettersFailed(name, where.topic, where.partition, str(error)))
        finally:
            self._under_way.discard(which)

    async def _have_turn(self, burial: _Burial) -> bool:
        """MarkDeadLettered some of the dead, when there are not too many others who do; tell whether there were any."""
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
        group = self._service.queues.find(name)
        window = None if group is None else group.windows.get(where)
        dead = [] if window is None else burial.next_dead(window)
        if group is None or window is None or not dead:
            return False
        # That they are dead has to be durable first: a letter of a message that is delivered again would be a lie.
        flights = [window.find(each) for each in dead]
        await self._service.queues.machine(name)
        dead = [offset for offset, flight in zip(dead, flights, strict=True) if window.find(offset) == flight]
        if not dead or self._service.queues.find(name) is not group or group.windows.get(where) is not window:
            # Somebody has moved or deleted the group meanwhile.
            return True
        if window.lost_end is not None:
            # Other messages may lie in the place of dead ones: the group goes back first, for which there was no room.
            await self._service.queues.submit(name, Retreat(name, where, window.lost_end))
            return True
        found = await self._gather(burial, group, window, dead)
        if not found.leases:
            return False
        letters, unknown = await self._doubts.unwritten((name, where), window, found.letters, found.leases)
        refused |= unknown
        # What is gone, or has its letter, is done whatever becomes of the others.
        await self._settle(burial, window, {each: found.leases[each] for each in found.leases if each not in letters})
        if letters:
            target = await self._target(group.settings.dead_letters or dead_letters_of(where.topic), where)
            leases = {each: found.leases[each] for each in letters}
            refused |= await self._write(burial, window, target, letters, leases)
            await self._settle(burial, window, leases, target)
        return True

    async def _settle(
        self,
        burial: _Burial,
        window: QueueWindow,
        leases: Leases,
        target: _Target | None = None,
    ) -> None:
        """Have messages done that died of leases, but for the refused ones; perhaps their letters were just written."""
        leases = {offset: lease_id for offset, lease_id in leases.items() if offset not in burial.refused}
        if leases:
            # Nobody need look at these again.
            places = (target.place(),) if target and self._doubts.is_clear(burial.which, window, leases) else None
            await self._submit(burial, window, leases, places)
            self._doubts.forget(burial.which, leases)
            burial.got_on_at = self._service.core.clock.monotonic()

    async def _submit(
        self, burial: _Burial, window: QueueWindow, leases: Leases, places: tuple[LetterPlace, ...] | None
    ) -> None:
        command = MarkDeadLettered(burial.group, burial.where, window.topic_id, leases, places)
        await self._service.queues.submit(burial.group, command)

    async def _gather(self, burial: _Burial, group: QueueGroup, window: QueueWindow, dead: Sequence[int]) -> _Gathered:
        """Make letters of dead messages: of no more at once than a bounded number of bytes, opened or written."""
        where = burial.where
        finder = burial.finder_of(self._service.topics.topic(where.topic).partition(where.partition), window, dead)
        found = _Gathered({}, {})
        seen_batches: list[tuple[int, int]] = []
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
            now_ms = self._service.core.clock.now_ms()
            try:
                record = finder.take(offset)
            except Corrupt as error:
                told = cause_headers(group.name, where, offset, None, flight)
                bytes_max = self._bytes_max(group, where)
                letter = unreadable_letter(finder.partition, offset, error, told, now_ms, seen_batches, bytes_max)
                size += len(letter.value or b"")
                found.letters[offset] = letter
                continue
            if record is not None:
                size += record.size_bytes
                found.letters[offset] = _letter(group, where, record, flight, now_ms)
        return found

    def _bytes_max(self, group: QueueGroup, where: TopicPartition) -> int:
        """Return how large a letter may be, for those that can be made smaller."""
        home = self._service.topics.by_name.get(group.settings.dead_letters or dead_letters_of(where.topic))
        opened = self._service.topics.topic(where.topic) if home is None else home
        return opened.settings.log.max_message_bytes - _HEADERS_BYTES

    async def _write(
        self, burial: _Burial, window: QueueWindow, target: _Target, letters: Letters, leases: Leases
    ) -> dict[int, GoQueueError]:
        """Write letters to their partition; return the messages whose letters it does not take, and why.

        Raises what may be better later for all of them.
        """
        which = burial.which
        try:
            places = self._doubts.places(which, window, target.place(), letters)
        except Unavailable as full:
            # Others may be less doubtful, and make room.
            return dict.fromkeys(letters, full)
        if places != window.letter_places:
            await self._submit(burial, window, {}, places)
        # From here on there is no pause until they are written.
        leases = self._still_dead(burial, window, leases)
        letters = {each: letter for each, letter in letters.items() if each in leases}
        self._doubts.sending(which, leases, target.partition)
        outcomes = await self._publish(target.partition, list(letters.values()))
        refused = {offset: error for offset, error in zip(letters, outcomes, strict=True) if error is not None}
        for error in refused.values():
            if not isinstance(error, Invalid):
                raise error
        self._doubts.forget(which, refused)
        return refused

    def _still_dead(self, burial: _Burial, window: QueueWindow, leases: Leases) -> Leases:
        """Return those of the leases of which messages are still dead; somebody may have moved or deleted the group.

        Who is dead no more is delivered again, and not in doubt, though it may have had a letter.
        """
        group = self._service.queues.find(burial.group)
        if group is None or group.windows.get(burial.where) is not window:
            return {}
        return {offset: lease_id for offset, lease_id in leases.items() if died_of(window.find(offset), lease_id)}

    async def _target(self, name: str, where: TopicPartition) -> _Target:
        """Return where new letters of a partition go; Unavailable if they cannot go there now."""
        if name not in self._service.topics.by_name:
            source = self._service.topics.topic(where.topic)
            config = {
                "retention.ms": str(dead_letters.RETENTION_MS),
                "max.message.bytes": str(source.settings.log.max_message_bytes + _HEADERS_BYTES),
            }
            with suppress(TopicExists):
                await create_topic(self._service.topics, INSIDE, name, partitions=len(source.partitions), config=config)
        opened = self._service.topics.topic(name)
        partition = opened.partition(where.partition % len(opened.partitions))
        # A partition that takes no dead letters need never be searched for them, so this is found out first.
        partition.log.ensure_open()
        if partition.log.fault:
            raise partition.offline()
        return _Target(opened.topic.id, partition)

    async def _publish(self, partition: Partition, letters: Sequence[NewRecord]) -> Sequence[GoQueueError | None]:
        """Publish letters, each by itself, durably; return what has kept each of them from it."""
        bytes_max = partition.settings.log.max_message_bytes
        sections = [Section(partition, moved_batch([letter], bytes_max)) for letter in letters]
        outcomes = await publish_sections(self._service.messages, INSIDE, Acks.ALL, sections, limits=MessageLimits.NONE)
        # With `goqueue.flush=interval` they need not be on the disk yet.
        ends = [outcome.end_offset for outcome in outcomes if isinstance(outcome, Appended)]
        await partition.flusher.durable(max(ends, default=0))
        return [outcome if isinstance(outcome, GoQueueError) else None for outcome in outcomes]


def _letter(group: QueueGroup, where: TopicPartition, record: Record, flight: Flight, now_ms: int) -> NewRecord:
    told = cause_headers(group.name, where, record.offset, record.timestamp, flight)
    # A letter that died before says why it is here now; what it said then is of no use any more.
    names = {name for name, _ in told}
    kept = [(name, value) for name, value in record.headers if name not in names]
    return NewRecord(now_ms, record.key, record.value, [*kept, *told])
