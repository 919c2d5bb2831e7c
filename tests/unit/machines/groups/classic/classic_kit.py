"""A classic group on a stage: commands go in, answers come out by ticket, and what must always hold is checked.

Whatever happens to the group goes through `Stage._take`: answers reach tickets that wait, and each of them once; the
tickets that wait are those that the group knows; what is stored folds to the group as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

from goqueue.errors import GoQueueError
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.groups.classic import group as classic_group
from goqueue.machines.groups.classic.joining import join
from goqueue.machines.groups.classic.records import changes, fold
from goqueue.machines.groups.classic.values import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    ClassicStep,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Leaver,
    Protocol,
    Sync,
    Synced,
    member_counts_of,
)
from goqueue.machines.groups.keys import decode_key
from goqueue.machines.groups.values import REBALANCES_KEPT
from goqueue.model.topic import TopicPartition
from tests.unit.machines.compaction import compactions
from tests.unit.machines.groups.classic.consumer_bytes import assignment, subscription

NAME = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 20_000
OPEN_MS = 200
RANGE = (Protocol("range", subscription("orders")),)


class Stage:
    """One group and everything that was said to it; time stands still unless it is told to pass."""

    def __init__(self) -> None:
        self.group: ClassicGroup | None = None
        self.now = Now(1_700_000_000_000, 50_000)
        self.records: list[KeyedRecord] = []
        self.answers: dict[int, object] = {}
        self.waiting: set[int] = set()
        self._stored: ClassicGroup | None = None
        self._born: dict[int, frozenset[str]] = {}
        self._tickets = count(1)
        self._ids = count(1)

    # -- what members do; each returns its ticket

    def join(self, member_id: str = "", **fields: Any) -> int:
        """Join; without an id, the member gets that of `new_id`."""
        fields.setdefault("new_id", f"new-{next(self._ids)}")
        fields.setdefault("session_timeout_ms", SESSION_MS)
        fields.setdefault("rebalance_timeout_ms", REBALANCE_MS)
        fields.setdefault("protocol_type", "consumer")
        fields.setdefault("protocols", RANGE)
        command = Join(group=NAME, member_id=member_id, **fields)
        return self._act(lambda ticket: join(self.group, command, ticket, self.now))

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        **fields: Any,
    ) -> int:
        """Ask for an assignment, in the generation that it is unless another one is named."""
        command = Sync(
            group=NAME,
            member_id=member_id,
            generation=self.generation if generation is None else generation,
            assignments=assignments or {},
            **fields,
        )
        return self._act(lambda ticket: classic_group.sync(self.group, command, ticket, self.now))

    def heartbeat(self, member_id: str, *, generation: int | None = None, instance_id: str | None = None) -> int:
        """Say that a member is alive."""
        generation = self.generation if generation is None else generation
        command = Heartbeat(group=NAME, member_id=member_id, generation=generation, instance_id=instance_id)
        return self._act(lambda ticket: classic_group.heartbeat(self.group, command, ticket, self.now))

    def leave(self, *leavers: str | Leaver) -> int:
        """Let members go."""
        named = tuple(Leaver(leaver) if isinstance(leaver, str) else leaver for leaver in leavers)
        return self._act(lambda ticket: classic_group.leave(self.group, Leave(NAME, named), ticket, self.now))

    # -- what happens to all

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, and what is due happen at its moment."""
        end = self.now.monotonic_ms + duration_ms
        while self.group is not None and (due := classic_group.deadline_ms(self.group)) is not None and due <= end:
            self._set_time(max(due, self.now.monotonic_ms))
            step = classic_group.tick(self.group, self.now)
            allowed = {"rebalance_in_progress"} | ({"unknown_member"} if self._has_waited_too_long() else set())
            told = {answer.reply.code for answer in step.answers if isinstance(answer.reply, GoQueueError)}
            assert told <= allowed, "whoever waits is no stranger"
            self._take(step)
            after = classic_group.deadline_ms(self.group)
            assert after is None or after > self.now.monotonic_ms, "what was due is done"
        self._set_time(end)

    def restart(self, *, is_compacted: bool = False) -> None:
        """Stop the broker and start it again: all connections break, and only what is stored is left."""
        found = [folded(records) for records in (compactions(self.records) if is_compacted else [self.records])]
        assert all(each == self._stored for each in found), "whatever compaction leaves, it is the same group"
        self.waiting.clear()
        self.group = self._stored = found[-1]
        if self.group is not None:
            self.group = classic_group.revive(self.group, self.now)
            self._validate(self.group)

    # -- what there is to see

    @property
    def known(self) -> ClassicGroup:
        """The group, which must be there."""
        assert self.group is not None
        return self.group

    @property
    def generation(self) -> int:
        return self.group.generation if self.group else 0

    @property
    def state(self) -> str:
        return self.known.state.value

    def joined(self, ticket: int) -> Joined:
        """Return what a member was told that has joined."""
        answer = self.answers[ticket]
        assert isinstance(answer, Joined), answer
        return answer

    def synced(self, ticket: int) -> bytes:
        """Return the assignment that a member was given."""
        answer = self.answers[ticket]
        assert isinstance(answer, Synced), answer
        return answer.assignment

    def told(self, *tickets: int) -> list[str]:
        """Return in a word for each ticket what came of it: `waits`, `ok`, or the code of an error."""
        return [self._word(ticket) for ticket in tickets]

    def results(self, ticket: int) -> list[str]:
        """Return in a word what came of each leaver."""
        answer = self.answers[ticket]
        assert isinstance(answer, tuple)
        return [each.code if isinstance(each, GoQueueError) else "ok" for each in answer]

    def _word(self, ticket: int) -> str:
        if ticket in self.waiting:
            return "waits"
        answer = self.answers[ticket]
        return answer.code if isinstance(answer, GoQueueError) else "ok"

    # -- every step

    def _has_waited_too_long(self) -> bool:
        begun = self.known.round
        return begun is not None and any(each <= self.now.monotonic_ms for each in begun.newcomers.values())

    def _act(self, act: Callable[[int], ClassicStep]) -> int:
        ticket = next(self._tickets)
        self.waiting.add(ticket)
        before = self.group
        try:
            step = act(ticket)
        except GoQueueError as error:
            self.waiting.discard(ticket)
            self.answers[ticket] = error
            assert self.group is before
            return ticket
        self._take(step)
        return ticket

    def _take(self, step: ClassicStep) -> None:
        for ticket, reply in step.answers:
            assert ticket in self.waiting, f"nobody waits under {ticket}"
            self.waiting.discard(ticket)
            self.answers[ticket] = reply
        new = changes(self.group, step.group)
        assert step.group.generation >= self.generation
        self.group = step.group
        self.records += new
        self._stored = folded(new, self._stored)
        assert self._stored == (step.group if step.group.generation else None)
        self._validate(step.group)

    def _validate(self, group: ClassicGroup) -> None:
        validate(group, self.waiting)
        if group.round is None and group.members:
            # Whoever comes back under an instance id is the same member.
            members = frozenset(member.instance_id or member.id for member in group.members.values())
            born = self._born.setdefault(group.generation, members)
            assert members == born, "a generation has the same members for ever"

    def _set_time(self, monotonic_ms: int) -> None:
        passed = monotonic_ms - self.now.monotonic_ms
        self.now = Now(self.now.wall_ms + passed, monotonic_ms)


def folded(records: Iterable[KeyedRecord], group: ClassicGroup | None = None) -> ClassicGroup | None:
    """Return what stored records make of a group."""
    for record in records:
        group = fold(group, decode_key(record.key), record.value)
    return group


def validate(group: ClassicGroup, waiting: set[int]) -> None:
    """Check what always holds; `waiting` are the tickets of all who wait for an answer."""
    joiners = group.round.joiners if group.round else {}
    tickets = [joiner.ticket for joiner in joiners.values()] + list(group.syncing.values())
    assert len(tickets) == len(set(tickets))
    assert set(tickets) == waiting
    assert group.sessions.keys() == {each for each in group.members if not group.is_waiting(each)}
    assert not group.pending.keys() & (group.members.keys() | joiners.keys())
    if group.round:
        assert group.round.newcomers.keys() == joiners.keys() - group.members.keys()
        assert group.round.tally == member_counts_of(group.everybody().values())
    if group.syncing:
        assert group.state is ClassicState.COMPLETING
        assert group.syncing.keys() <= group.members.keys()
    if not group.round:
        assert group.leader in group.members if group.members else not group.leader
        assert group.members or (not group.is_assigned and group.protocol is None)
    assert not group.members or group.protocol in _common_protocols(group.members.values())
    everybody = {**group.members, **{each: joiner.member for each, joiner in joiners.items()}}
    assert not everybody or _common_protocols(everybody.values())
    assert all(member.id == each for each, member in group.members.items())
    assert len(group.rebalances) == min(group.rebalance_count, REBALANCES_KEPT)
    assert not group.generation or group.rebalances[-1].epoch == group.generation
    if waiting or group.members or group.pending:
        assert classic_group.deadline_ms(group) is not None, "time ends every wait"


def _common_protocols(members: Iterable[ClassicMember]) -> set[str]:
    """Return the protocols that all members know, who have different instance ids."""
    members = list(members)
    instances = [member.instance_id for member in members if member.instance_id is not None]
    assert len(instances) == len(set(instances))
    return set.intersection(*({protocol.name for protocol in member.protocols} for member in members))


# -- scenes to begin with


def all_joined(stage: Stage, *members: str, **fields: Any) -> list[int]:
    """Let members begin a group together, the first one leads; return the tickets of their joins."""
    tickets = [stage.join(new_id=member, **fields) for member in members]
    stage.pass_ms(OPEN_MS)
    return tickets


def stable(*members: str, **fields: Any) -> Stage:
    """Return a stage with a group whose members have one partition of `orders` each, in their order."""
    stage = Stage()
    all_joined(stage, *members, **fields)
    settle(stage)
    return stage


def settle(stage: Stage) -> None:
    """Let the leader of a generation give each member one partition, and all members ask for theirs."""
    members = list(stage.known.members)
    shares = {member: assignment(TopicPartition("orders", index)) for index, member in enumerate(sorted(members))}
    for member in members:
        stage.sync(member, shares if member == stage.known.leader else None)
    assert stage.state == "Stable"
