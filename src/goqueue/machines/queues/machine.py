"""Queue groups: leases, and which messages are still to be delivered.

The state is a fold over keyed records (`records`); the states of a message are in `values`, those of a partition in
`window`. The machine knows neither the content of messages nor where they are stored: a receive brings the messages
that it can lease.

Leases and delivery counts are stored, so they outlive the broker. Consumers do not wait for that: if a power loss takes
them back, the message is delivered again, like every message without an ack. An ack is durable before its consumer gets
the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple
from uuid import UUID

from msgspec.structs import replace

from goqueue.machines.deadlines import Deadlines
from goqueue.machines.decision import Decision, KeyedRecord, Now, TicketReply
from goqueue.machines.queues.admin import administer, require
from goqueue.machines.queues.commands import Command, MarkDeadLettered, PassTime, Receive, Settle, Taker
from goqueue.machines.queues.draft import QueueDraft
from goqueue.machines.queues.group import NOTHING, ChunkKey, QueueGroup, QueueOutcome, SettledCounts, draft_records
from goqueue.machines.queues.records import (
    GroupValue,
    QueueKeyKind,
    group_record,
    read_done,
    read_flights,
    read_group,
    read_key,
    read_letter_places,
    read_partition,
)
from goqueue.machines.queues.steps import (
    Result,
    all_stale,
    becoming,
    begun,
    dead_as_told,
    lease,
    pass_time,
    settle,
)
from goqueue.machines.queues.values import TIMED, AckType, Delivery, Flight, FlightState
from goqueue.machines.queues.window import SHIFT, Chunk, FlightChange, QueueWindow
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition

# For a group without stored state.
_DEFAULTS = QueueSettings()


class Leased(NamedTuple):
    """Messages that a consumer got, until when (wall time), and why it got no more, if there is a reason."""

    deliveries: Sequence[Delivery]
    deadline_ms: int
    shortfall: str = ""


class QueueMachine:
    """The queue groups of one shard.

    `wall_jump_ms` is how far the wall clock was set since deadlines were stored; they are corrected by it.
    """

    def __init__(self, wall_jump_ms: int = 0) -> None:
        self._wall_jump_ms = wall_jump_ms
        self.groups: dict[str, QueueGroup] = {}
        # Partitions with dead messages that wait for their dead letter to be written.
        self._dying: dict[tuple[str, TopicPartition], None] = {}
        self._deadlines: Deadlines[ChunkKey] = Deadlines()
        self._tripped: list[tuple[str, str]] = []

    def find(self, group: str) -> QueueGroup | None:
        """Return a group, or None."""
        return self.groups.get(group)

    def require(self, group: str) -> QueueGroup:
        """Return a group; UnknownQueue if it does not exist."""
        return require(self.groups, group)

    def dying(self) -> Sequence[tuple[str, TopicPartition]]:
        """Return the groups and partitions that have dead messages."""
        for name, partition in list(self._dying):
            group = self.groups.get(name)
            window = None if group is None else group.windows.get(partition)
            if window is None or not window.dead:
                del self._dying[name, partition]
        return list(self._dying)

    def take_tripped(self) -> Sequence[tuple[str, str]]:
        """Return the groups that have paused themselves, and the reason; each of them once."""
        taken, self._tripped = self._tripped, []
        return taken

    # -- the interface of a shard

    def is_independent(self, command: Command) -> bool:
        """Return False: every command reads what others change."""
        del command
        return False

    def decide(self, command: Command, ticket: int, now: Now) -> Decision:
        """Return the decision on a command; raise what forbids it."""
        match command:
            case Receive():
                return self._receive(command, ticket, now)
            case Settle():
                return self._settle(command, ticket, now)
            case MarkDeadLettered():
                return self._bury(command, ticket)
            case PassTime():
                return self._pass_time(command, ticket, now)
            case _:
                return administer(self.groups, command, ticket)

    def adopt(self, decision: Decision) -> None:
        """Apply a decision whose records are stored."""
        outcomes = decision.outcome
        assert isinstance(outcomes, tuple)
        for outcome in outcomes:
            assert isinstance(outcome, QueueOutcome)
            self._adopt(outcome)

    def _adopt(self, outcome: QueueOutcome) -> None:
        value = outcome.value
        if value is None:
            self.groups.pop(outcome.group, None)
            if outcome.past is not None:
                self._deadlines.note(outcome.past, None)
            return
        group = self.groups.get(outcome.group)
        if group is None:
            group = self.groups[outcome.group] = QueueGroup(outcome.group, value.settings)
        if value is not group.value:
            if value.paused and not group.paused and outcome.tally.failed:
                self._tripped.append((group.name, value.paused))
            group.take(value)
        _replace_windows(group, outcome.opened)
        for partition, draft in outcome.drafts.items():
            draft.adopt()
            group.count(draft.moves)
            self._note_deadlines(group.name, partition, draft.moves)
            if draft.window.dead:
                self._dying[group.name, partition] = None
        group.tally(outcome.tally)
        if outcome.past is not None:
            if outcome.expired:
                group.expired[outcome.past.partition.topic] += outcome.expired
            self._note_rest(outcome.past)

    def apply(self, record: KeyedRecord) -> None:
        """Apply a stored record."""
        kind, name, partition, index = read_key(record.key)
        if kind is QueueKeyKind.GROUP:
            if record.value is None:
                self.groups.pop(name, None)
                return
            self._loading(name).take(read_group(record.value))
            return
        windows = self._loading(name).windows
        window = windows.get(partition)
        if window is None:
            # Chunks are stored before the record of their partition.
            window = windows[partition] = QueueWindow(UUID(int=0), 0, 0)
        if kind is QueueKeyKind.DONE:
            window.load_done(index, 0 if record.value is None else read_done(record.value))
        elif kind is QueueKeyKind.FLIGHTS:
            window.load_flights(index, {} if record.value is None else read_flights(record.value))
        elif kind is QueueKeyKind.LETTERS:
            window.letter_places = () if record.value is None else read_letter_places(record.value)
        elif record.value is None:
            del windows[partition]
        else:
            stored = read_partition(record.value)
            window.topic_id, window.floor, window.cursor = stored.topic_id, stored.floor, stored.cursor
            window.epoch = stored.epoch

    def _loading(self, name: str) -> QueueGroup:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = QueueGroup(name, _DEFAULTS)
        return group

    def revive(self, now: Now) -> None:
        """Start after loading: every deadline counts again from now, by a clock that cannot jump."""
        # A forgotten partition may have left records of which compaction has removed only some.
        self.groups = {name: group for name, group in self.groups.items() if group.settings is not _DEFAULTS}
        # Messages with equal flights share one object, as before the restart.
        revived = cache(partial(_revived, now, self._wall_jump_ms))
        for group in self.groups.values():
            group.windows = {each: window for each, window in group.windows.items() if window.topic_id.int}
            for partition, window in group.windows.items():
                window.loaded()
                moves = [move for chunk in _in_order(window) for move in _revivals(chunk, revived)]
                for move in moves:
                    window.note(move)
                window.old_dead = set(window.dead)
                group.count(moves)
                self._note_deadlines(group.name, partition, moves)
                if window.dead:
                    self._dying[group.name, partition] = None

    def deadline_ms(self) -> int | None:
        """Return the monotonic moment of the next deadline."""
        return self._deadlines.next_ms()

    def due(self, now: Now) -> Iterable[Command]:
        """Return the commands that are due."""
        for place in self._deadlines.due(now.monotonic_ms):
            yield PassTime(*place)

    def _note_deadlines(self, group: str, partition: TopicPartition, moves: Iterable[FlightChange]) -> None:
        """Note a deadline of a chunk; many messages share theirs."""
        moments = {
            (move.offsets[0] >> SHIFT, move.after.until.monotonic_ms)
            for move in moves
            if move.after is not None and move.after.state in TIMED
        }
        for chunk, moment_ms in sorted(moments):
            self._deadlines.note(ChunkKey(group, partition, chunk), moment_ms)

    def _note_rest(self, place: ChunkKey) -> None:
        """Note the next deadline of a chunk whose deadlines were just handled."""
        window = self.groups[place.group].windows.get(place.partition)
        chunk = None if window is None else window.chunks.get(place.chunk)
        moments = [] if chunk is None else [f.until.monotonic_ms for f in chunk.flights.values() if f.state in TIMED]
        self._deadlines.note(place, min(moments, default=None), is_past=True)

    # -- decisions

    def _receive(self, command: Receive, ticket: int, now: Now) -> Decision:
        group = self.require(command.group)
        drafts: dict[TopicPartition, QueueDraft] = {}
        taken: dict[str, int] = {}
        reply = []
        for taker in command.takers:
            before = taken.get(taker.consumer, 0)
            most = room = 0 if group.paused else min(group.room(taker.consumer) - before, taker.limit)
            deliveries: list[Delivery] = []
            for offer in command.offers:
                if room > 0 and offer.partition in group.windows:
                    draft = drafts.get(offer.partition)
                    if draft is None:
                        draft = drafts[offer.partition] = begun(group.windows[offer.partition], offer)
                    leased = lease(draft, offer, taker, now, room)
                    room -= sum([len(each.offsets) for each in leased])
                    deliveries += leased
            taken[taker.consumer] = before + most - room
            reply.append(Leased(deliveries, now.wall_ms + taker.visibility_ms, _shortfall(group, taker, most, room)))
        return _drafted(group, drafts, ticket, reply, is_told_at_once=True)

    def _settle(self, command: Settle, ticket: int, now: Now) -> Decision:
        group = self.require(command.group)
        drafts: dict[TopicPartition, QueueDraft] = {}
        become = None if command.verdict is AckType.ACK else becoming(command, group.settings, now)
        results: list[Result] = []
        for claim in command.claims:
            draft = drafts.get(claim.partition)
            if draft is None:
                window = group.windows.get(claim.partition)
                if window is None:
                    results += all_stale([claim])
                    continue
                draft = drafts[claim.partition] = QueueDraft(window)
            results += settle(draft, claim, now, become)
        moves = [move for draft in drafts.values() for move in draft.moves]
        done = sum([len(move.offsets) for move in moves if move.after is None])
        deaths = [move for move in moves if move.after is not None and move.after.state is FlightState.DEAD]
        failed = sum([len(move.offsets) for move in deaths])
        return _drafted(group, drafts, ticket, results, tally=SettledCounts(done, failed))

    def _bury(self, command: MarkDeadLettered, ticket: int) -> Decision:
        group = self.groups.get(command.group)
        window = None if group is None else group.windows.get(command.partition)
        if group is None or window is None:
            return Decision(answers=[TicketReply(ticket, None)], outcome=(), is_idle=True)
        draft = QueueDraft(window)
        for offset in dead_as_told(window, command):
            draft.finish(offset)
        if command.letter_places is not None and window.topic_id == command.topic_id:
            draft.letter_places = command.letter_places
        return _drafted(group, {command.partition: draft}, ticket, None)

    def _pass_time(self, command: PassTime, ticket: int, now: Now) -> Decision:
        place = ChunkKey(command.group, command.partition, command.chunk)
        group = self.groups.get(command.group)
        if group is None:
            return Decision(outcome=(QueueOutcome(command.group, None, past=place),))
        window = group.windows.get(command.partition)
        if window is None:
            return Decision(outcome=(QueueOutcome(command.group, group.value, past=place),))
        draft = QueueDraft(window)
        passed = pass_time(draft, command.chunk, group.settings, now)
        tally = SettledCounts(0, passed.dead)
        # After a start, deadlines are evaluated again, by a clock that may have been set back. So deaths are stored: no
        # consumer may get a message that has a dead letter by then. Time marks no message as done, so there is nothing
        # else to close.
        records = draft_records(group.name, command.partition, draft) if tally.failed else ()
        value = _counted(group, tally)
        outcome = QueueOutcome(
            group.name, value, {command.partition: draft}, tally=tally, past=place, expired=passed.expired
        )
        return Decision([*records, *_changed(group, value)], [TicketReply(ticket, None)], (outcome,))


def _replace_windows(group: QueueGroup, opened: Mapping[TopicPartition, QueueWindow | None]) -> None:
    for partition, window in opened.items():
        known = group.windows.pop(partition, None)
        if known is not None:
            flights = [pair for chunk in known.chunks.values() for pair in chunk.alike().items()]
            group.count(FlightChange(offsets, flight, None) for flight, offsets in flights)
        if window is not None:
            group.windows[partition] = window
        else:
            group.expired.pop(partition.topic, None)


def _drafted(
    group: QueueGroup,
    drafts: Mapping[TopicPartition, QueueDraft],
    ticket: int,
    reply: object,
    *,
    tally: SettledCounts = NOTHING,
    is_told_at_once: bool = False,
) -> Decision:
    """Return the decision of drafts."""
    records = [record for each, draft in drafts.items() for record in draft_records(group.name, each, draft)]
    value = _counted(group, tally)
    more = _changed(group, value)
    outcome = QueueOutcome(group.name, value, drafts, tally=tally)
    is_idle = not records and not more and all(draft.is_empty for draft in drafts.values())
    answers = [TicketReply(ticket, reply)]
    return Decision([*records, *more], answers, (outcome,), is_told_at_once=is_told_at_once, is_idle=is_idle)


def _counted(group: QueueGroup, tally: SettledCounts) -> GroupValue:
    """Return the group after more settled messages: too many dead ones pause it."""
    reason = "" if group.paused else group.breaks(tally)
    return replace(group.value, paused=reason) if reason else group.value


def _changed(group: QueueGroup, value: GroupValue) -> Sequence[KeyedRecord]:
    """Return the record of the group's own value, if it has changed."""
    return () if value is group.value else [group_record(group.name, value)]


def _in_order(window: QueueWindow) -> list[Chunk]:
    return [window.chunks[index] for index in sorted(window.chunks)]


def _revivals(chunk: Chunk, revived: Callable[[Flight], Flight]) -> Iterator[FlightChange]:
    """Revive the messages of a chunk; those with equal flights share one object."""
    for before, offsets in chunk.alike().items():
        after = revived(before)
        chunk.flights.update(dict.fromkeys(offsets, after))
        yield FlightChange(offsets, None, after)


def _revived(now: Now, wall_jump_ms: int, flight: Flight) -> Flight:
    """Return a flight whose deadline runs again; never for longer than its full time, whatever the wall clock shows."""
    until_ms, since_ms = flight.until.wall_ms, flight.since_ms
    if since_ms < 0:
        since_ms = until_ms if flight.lease is None else flight.lease.since_ms
    total_ms = until_ms - since_ms
    until_ms += wall_jump_ms
    left_ms = max(min(until_ms - now.wall_ms, total_ms), 0)
    revived = flight._replace(until=Now(until_ms, now.monotonic_ms + left_ms))
    # Both times move together: otherwise the next start would take the jump for a part of the full time.
    return revived._replace(since_ms=since_ms + wall_jump_ms) if wall_jump_ms else revived


def _shortfall(group: QueueGroup, taker: Taker, most: int, left: int) -> str:
    """Return why a consumer that may take `most` messages gets no more; if there is room `left`, there are no more
    messages.
    """
    if group.paused:
        return f"the group is paused: {group.paused}"
    if most < taker.limit and not left:
        return f"consumer {taker.consumer!r} may hold {group.settings.in_flight_max} messages at once"
    return ""
