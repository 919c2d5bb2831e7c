"""All groups of one partition of `__consumer_offsets`: members, assignments and offsets.

Classic groups and consumer groups share their names: a name belongs to one kind at a time, and can change its kind only
without members. Offsets need no group: a name with nothing but offsets is that of a consumer that assigns its
partitions itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, assert_never

import msgspec

from goqueue.errors import Corrupt, InconsistentProtocol, UnknownGroup, UnknownMember
from goqueue.machines.deadlines import Deadlines
from goqueue.machines.decision import Decision, KeyedRecord, Now, TicketReply
from goqueue.machines.groups.classic import group as classic_group
from goqueue.machines.groups.classic import records as classic_records
from goqueue.machines.groups.classic.joining import join
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicStep, Heartbeat, Join, Leave, Sync
from goqueue.machines.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DropTopicOffsets,
    EndOffsets,
    Refresh,
    Sweep,
    Tick,
)
from goqueue.machines.groups.consumer import group as consumer_group
from goqueue.machines.groups.consumer import records as consumer_records
from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerHeartbeat, ConsumerMember, ConsumerReply
from goqueue.machines.groups.interests import GroupInterests
from goqueue.machines.groups.keys import GroupKey, GroupKeyKind, decode_key
from goqueue.machines.groups.kinds import Group, check_commit, check_removal, expired, refusals_of_removal, unused
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset, OffsetTable
from goqueue.machines.groups.rebalance_kinds import RebalanceKind, new_rebalances
from goqueue.machines.groups.values import KnownTopics

OFFSETS_RETENTION_MS = 7 * 24 * 3_600_000
_SWEEP_INTERVAL_MS = 600_000
# Each may examine all topics and members, so other commands get a turn in between. Heartbeats do not wait for turns.
_REFRESHES_AT_ONCE = 1
_OFFSET_PREFIXES = frozenset({bytes([GroupKeyKind.OFFSET]), bytes([GroupKeyKind.PENDING])})

ClassicCommand = Join | Sync | Heartbeat | Leave
Command = (
    ClassicCommand
    | ConsumerHeartbeat
    | CommitOffsets
    | DeleteOffsets
    | DeleteGroup
    | EndOffsets
    | DropTopicOffsets
    | Refresh
    | Tick
    | Sweep
)


class _Outcome(NamedTuple):
    """The next value of a group, whether the deadline was handled, and whether topic changes are included."""

    name: str
    group: Group | None
    is_tick: bool
    is_fresh: bool


class _SignOfLife(NamedTuple):
    """A member after a heartbeat that changes nothing else in its group."""

    group: ConsumerGroup
    member: ConsumerMember


class GroupMachine:
    """The groups of one shard; `topics` is kept up to date by its owner, `pace` by all shards that share it.

    `rebalances` counts rebalances since the start.
    """

    def __init__(
        self,
        topics: KnownTopics,
        pace: HeartbeatPace | None = None,
        *,
        offsets_retention_ms: int = OFFSETS_RETENTION_MS,
    ) -> None:
        self.offsets = OffsetTable()
        self.rebalances: Counter[RebalanceKind] = Counter()
        self._topics = topics
        self._pace = pace or HeartbeatPace()
        self._groups: dict[str, Group] = {}
        self._interests = GroupInterests()
        self._deadlines: Deadlines[str] = Deadlines()
        # In the order of their turns.
        self._stale: dict[str, None] = {}
        self._sweep_at_ms: int | None = None
        self._offsets_retention_ms = offsets_retention_ms

    @property
    def groups(self) -> Mapping[str, Group]:
        """All groups that have, or had, members."""
        return self._groups

    def names(self) -> list[str]:
        """Return the names of all groups, including those with nothing but offsets."""
        return sorted({*self._groups, *self.offsets.groups()})

    def find(self, name: str) -> Group | None:
        """Return a group; None if it never had members."""
        return self._groups.get(name)

    # -- decisions

    def is_independent(self, command: Command) -> bool:
        """Return whether a decision reads nothing that other independent commands change."""
        return isinstance(command, CommitOffsets)

    def decide(self, command: Command, ticket: int, now: Now) -> Decision:
        """Return the decision on a command; raise what forbids it."""
        match command:
            case Join() | Sync() | Heartbeat() | Leave():
                return self._decide_classic(command, ticket, now)
            case ConsumerHeartbeat():
                return self._decide_consumer(command, ticket, now)
            case Refresh() | Tick():
                return self._pass_time(command, ticket, now)
            case DeleteGroup(name):
                check_removal(name, self._groups.get(name), has_offsets=self.offsets.has(name))
                gone = self._change(name, None, [TicketReply(ticket, None)])
                return Decision([*gone.records, *self.offsets.forget(name)], gone.answers, gone.outcome)
            case CommitOffsets():
                return self._commit(command, ticket, now)
            case DeleteOffsets() | EndOffsets() | DropTopicOffsets() | Sweep():
                return self._forget(command, ticket, now)
            case _:
                assert_never(command)

    def _decide_consumer(self, command: ConsumerHeartbeat, ticket: int, now: Now) -> Decision:
        known = self._consumer(command.group)
        if known is not None:
            is_stale = command.group in self._stale
            member = None if is_stale else consumer_group.still_alive(known, command, now)
            if member is not None:
                reply = ConsumerReply(
                    member_id=member.id, epoch=member.epoch, heartbeat_interval_ms=self._pace.interval_ms(known)
                )
                return Decision(answers=[TicketReply(ticket, reply)], outcome=_SignOfLife(known, member))
            known = self._fresh(known, now)
        group, reply = consumer_group.heartbeat(known, command, self._topics, now, self._pace)
        return self._change(command.group, group, [TicketReply(ticket, reply)], is_fresh=True)

    def _fresh(self, group: ConsumerGroup, now: Now) -> ConsumerGroup:
        """Return a group with all topic changes included."""
        return consumer_group.refresh(group, self._topics, now) if group.name in self._stale else group

    def _decide_classic(self, command: ClassicCommand, ticket: int, now: Now) -> Decision:
        known = self._groups.get(command.group)
        if isinstance(command, Leave) and isinstance(known, ConsumerGroup) and known.members:
            after, results = consumer_group.dismiss(known, command.leavers, self._topics, now)
            return self._change(command.group, after, [TicketReply(ticket, tuple(results))])
        group = self._classic(command.group, is_joining=isinstance(command, Join))
        if group is None and isinstance(command, Leave):
            error = UnknownMember(f"group {command.group!r} has no such member")
            return Decision(answers=[TicketReply(ticket, (error,) * len(command.leavers))])
        step = _classic_step(group, command, ticket, now)
        return self._change(command.group, step.group, step.answers)

    def _classic(self, name: str, *, is_joining: bool) -> ClassicGroup | None:
        group = self._groups.get(name)
        if isinstance(group, ConsumerGroup):
            if group.members and is_joining:
                raise InconsistentProtocol(f"the broker assigns the partitions of group {name!r}")
            return None
        return group

    def _consumer(self, name: str) -> ConsumerGroup | None:
        group = self._groups.get(name)
        if isinstance(group, ClassicGroup):
            if group.members or group.round is not None:
                raise InconsistentProtocol(f"the members of group {name!r} assign their partitions themselves")
            return None
        return group

    def _pass_time(self, command: Refresh | Tick, ticket: int, now: Now) -> Decision:
        group = self._groups.get(command.group)
        answers: Sequence[TicketReply] = ()
        after: Group | None = group
        if isinstance(group, ConsumerGroup):
            act = consumer_group.tick if isinstance(command, Tick) else consumer_group.refresh
            after = act(group, self._topics, now)
        elif isinstance(group, ClassicGroup) and isinstance(command, Tick):
            after, answers = classic_group.tick(group, now)
        is_tick = isinstance(command, Tick)
        return self._change(
            command.group, after, [*answers, TicketReply(ticket, None)], is_tick=is_tick, is_fresh=not is_tick
        )

    def _change(
        self,
        name: str,
        after: Group | None,
        answers: Sequence[TicketReply],
        *,
        is_tick: bool = False,
        is_fresh: bool = False,
    ) -> Decision:
        before = self._groups.get(name)
        if isinstance(after, ClassicGroup) and after.is_void:
            after = None
        records = _changes(before, after) if before is not after else []
        return Decision(records, answers, _Outcome(name, after, is_tick, is_fresh))

    def _commit(self, command: CommitOffsets, ticket: int, now: Now) -> Decision:
        group = self._groups.get(command.group)
        # A member that has read a deleted topic cannot commit to a new topic of the same name.
        refusals = check_commit(self._fresh(group, now) if isinstance(group, ConsumerGroup) else group, command)
        wanted = [
            NewOffset(partition, CommittedOffset(value.offset, value.leader_epoch, value.metadata, now.wall_ms))
            for (partition, value), refusal in zip(command.offsets, refusals, strict=True)
            if refusal is None
        ]
        if command.producer_id is None:
            records = self.offsets.commit(command.group, wanted)
        else:
            records = self.offsets.commit_pending(command.group, command.producer_id, wanted)
        return Decision(records, [TicketReply(ticket, tuple(refusals))])

    def _forget(
        self, command: DeleteOffsets | EndOffsets | DropTopicOffsets | Sweep, ticket: int, now: Now
    ) -> Decision:
        reply: object = None
        match command:
            case DeleteOffsets(name, partitions):
                if name not in self._groups and not self.offsets.has(name):
                    raise UnknownGroup(f"there is no group {name!r}").about(name)
                reply = refusals = tuple(refusals_of_removal(self._groups.get(name), partitions))
                allowed = [each for each, refusal in zip(partitions, refusals, strict=True) if refusal is None]
                records = self.offsets.forget(name, allowed)
            case EndOffsets(producer_id, is_commit):
                records = self.offsets.end_pending(producer_id, is_commit=is_commit)
            case DropTopicOffsets(topic):
                records = self.offsets.forget_topic(topic)
            case Sweep():
                records = expired(self._groups, self.offsets, now.wall_ms - self._offsets_retention_ms)
            case _:
                assert_never(command)
        return Decision(records, [TicketReply(ticket, reply)])

    # -- adoption

    def adopt(self, decision: Decision) -> None:
        """Apply a decision whose records are stored."""
        for record in decision.records:
            if record.key[:1] in _OFFSET_PREFIXES:
                self.offsets.apply(record)
        match decision.outcome:
            case _SignOfLife(group, member):
                # Deadlines only move later, which is noticed in time.
                self._groups[group.name] = replace(group, members={**group.members, member.id: member})
            case _Outcome(name, after, is_tick, is_fresh):
                self._note(name, after)
                self._set(name, after)
                self._deadlines.note(name, _deadline_ms(after), is_past=is_tick)
                if is_fresh:
                    self._stale.pop(name, None)

    def apply(self, record: KeyedRecord) -> None:
        """Apply a stored record; Corrupt if it is not a record of groups."""
        if record.key[:1] in _OFFSET_PREFIXES:
            self.offsets.apply(record)
            return
        key = decode_key(record.key)
        try:
            self._set(key.group, _fold(self._groups.get(key.group), key, record.value))
        except msgspec.MsgspecError as error:
            raise Corrupt(f"a record of group {key.group!r} cannot be read: {error}") from error

    def _note(self, name: str, after: Group | None) -> None:
        """Update the indexes: a group is about to be replaced."""
        before = self._groups.get(name)
        self.rebalances.update(new_rebalances(before, after))
        new = after if isinstance(after, ConsumerGroup) else None
        self._pace.replaced(before if isinstance(before, ConsumerGroup) else None, new)
        self._interests.note(name, new)

    def _set(self, name: str, group: Group | None) -> None:
        if group is None:
            self._groups.pop(name, None)
        else:
            self._groups[name] = group

    # -- time

    def revive(self, now: Now) -> None:
        """Start after loading: all sessions get their full time."""
        self._sweep_at_ms = now.monotonic_ms + _SWEEP_INTERVAL_MS
        for name, group in list(self._groups.items()):
            if isinstance(group, ClassicGroup):
                self._groups[name] = classic_group.revive(group, now)
            else:
                self._groups[name] = consumer_group.revive(group, now)
                self._pace.replaced(None, group)
                self._interests.note(name, group)
            self._deadlines.note(name, _deadline_ms(self._groups[name]))
        # Topics may have changed since these groups last looked at them.
        self._stale |= dict.fromkeys(name for name, each in self._groups.items() if isinstance(each, ConsumerGroup))

    def topics_changed(self, names: Collection[str]) -> None:
        """Note that topics have changed; interested groups are refreshed next."""
        for name in names:
            self._stale |= dict.fromkeys(sorted(self._interests.groups_of(name)))

    def deadline_ms(self) -> int | None:
        """Return the moment of the next deadline."""
        moments = (self._deadlines.next_ms(), self._sweep_at_ms, 0 if self._stale else None)
        return min((moment for moment in moments if moment is not None), default=None)

    def due(self, now: Now) -> Iterator[Command]:
        """Yield the commands that are due; a command that fails comes again."""
        for name in list(islice(self._stale, _REFRESHES_AT_ONCE)):
            # A group that cannot be refreshed does not block others.
            self._stale[name] = self._stale.pop(name)
            yield Refresh(name)
        for name in self._deadlines.due(now.monotonic_ms):
            yield Tick(name)
        if self._sweep_at_ms is not None and self._sweep_at_ms <= now.monotonic_ms:
            self._sweep_at_ms = now.monotonic_ms + _SWEEP_INTERVAL_MS
            yield Sweep()
            for name in unused(self._groups, self.offsets, now.wall_ms - self._offsets_retention_ms):
                yield DeleteGroup(name)

    def records(self) -> list[KeyedRecord]:
        """Return the records from which a new machine becomes equal to this one."""
        found = [record for group in self._groups.values() for record in _changes(None, group)]
        return [*found, *self.offsets.records()]


def _classic_step(group: ClassicGroup | None, command: ClassicCommand, ticket: int, now: Now) -> ClassicStep:
    match command:
        case Join():
            return join(group, command, ticket, now)
        case Sync():
            return classic_group.sync(group, command, ticket, now)
        case Heartbeat():
            return classic_group.heartbeat(group, command, ticket, now)
        case Leave():
            return classic_group.leave(group, command, ticket, now)
        case _:
            assert_never(command)


def _deadline_ms(group: Group | None) -> int | None:
    if group is None:
        return None
    if isinstance(group, ClassicGroup):
        return classic_group.deadline_ms(group)
    return consumer_group.deadline_ms(group)


def _changes(before: Group | None, after: Group | None) -> list[KeyedRecord]:
    classics = [group if isinstance(group, ClassicGroup) else None for group in (before, after)]
    consumers = [group if isinstance(group, ConsumerGroup) else None for group in (before, after)]
    records: list[KeyedRecord] = []
    # Tombstones come first, since both kinds share the key of the group.
    for is_going in (True, False):
        if (classics[1] is None) is is_going:
            records += classic_records.changes(*classics)
        if (consumers[1] is None) is is_going:
            records += consumer_records.changes(*consumers)
    return records


def _fold(group: Group | None, key: GroupKey, value: bytes | None) -> Group | None:
    if value is None:
        if isinstance(group, ConsumerGroup):
            return consumer_records.fold(group, key, None)
        return classic_records.fold(group, key, None) if group is not None else None
    kind = msgspec.json.decode(value, type=_Kind).kind
    if kind == classic_records.KIND:
        return classic_records.fold(group if isinstance(group, ClassicGroup) else None, key, value)
    if kind == consumer_records.KIND:
        return consumer_records.fold(group if isinstance(group, ConsumerGroup) else None, key, value)
    raise Corrupt(f"group {key.group!r} is of kind {kind!r}, which this version does not know")


class _Kind(msgspec.Struct):
    kind: str
