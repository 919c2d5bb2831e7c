"""Rounds of a classic group: how they begin, which members the next generation has, and which partitions moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from goqueue.machines.decision import Now, TicketReply
from goqueue.machines.groups.classic.checks import answered, in_progress
from goqueue.machines.groups.classic.consumer_protocol import CONSUMER, assigned_partitions
from goqueue.machines.groups.classic.values import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    ClassicStep,
    Joined,
    LeaderView,
    Round,
    member_counts_of,
)
from goqueue.machines.groups.values import REBALANCES_KEPT, Rebalance
from goqueue.model.topic import TopicPartition

# Members that start together should share a generation, but no member should wait long for others that may never come.
_OPEN_MS = 200
_OPEN_MAX_MS = 3_000
# Reasons are stored, and clients choose their text.
_REASON_CHARS_MAX = 500
# All other requests wait while moved partitions are counted.
_COUNTED_MAX = 100_000


def begin_round(group: ClassicGroup, reason: str, now: Now, *, timeout_ms: int = 0) -> ClassicStep:
    """Call all members to join again; the first reason of a round is kept. Members that wait for the leader get the
    error now.
    """
    if group.round is not None:
        return ClassicStep(group)
    timeout_ms = max([timeout_ms, *(member.rebalance_timeout_ms for member in group.members.values())])
    begun = Round(
        reason=reason[:_REASON_CHARS_MAX],
        began_ms=now.wall_ms,
        deadline_ms=now.monotonic_ms + timeout_ms,
        tally=member_counts_of(group.members.values()),
        open_max_ms=now.monotonic_ms + _OPEN_MAX_MS if group.state is ClassicState.EMPTY else 0,
        protocol_type=group.protocol_type,
    )
    answers = tuple(TicketReply(ticket, in_progress(group)) for ticket in group.syncing.values())
    return ClassicStep(replace(answered(group, now), round=begun), answers)


def kept_open(begun: Round | None, now: Now) -> Round | None:
    """Return the round; the first round of a group stays open a little longer for other members."""
    if begun is None or begun.open_max_ms <= now.monotonic_ms:
        return begun
    return replace(begun, open_until_ms=min(now.monotonic_ms + _OPEN_MS, begun.open_max_ms))


def complete_if_ready(group: ClassicGroup, now: Now) -> ClassicStep:
    """End the current round if all members have joined."""
    if group.round is None or group.pending or group.round.open_until_ms > now.monotonic_ms:
        return ClassicStep(group)
    is_complete = group.round.joiners.keys() >= group.members.keys()
    return complete_round(group, now) if is_complete else ClassicStep(group)


def complete_round(group: ClassicGroup, now: Now) -> ClassicStep:
    """Begin the next generation with the members that have joined, and send their replies.

    If none has joined, static members that are away keep their places until their sessions expire, and the round goes
    on.
    """
    assert group.round is not None
    ended = group.round
    absent = {
        member.id: member
        for member in group.members.values()
        if member.instance_id is not None and member.id not in ended.joiners
    }
    if absent and not ended.joiners:
        return ClassicStep(_waiting_for(group, ended, absent))
    members = absent | {each: joiner.member for each, joiner in ended.joiners.items()}
    group = replace(
        group,
        generation=group.generation + 1,
        protocol_type=ended.protocol_type,
        members=members,
        leader=_leader(group, ended),
        protocol=chosen_protocol(members.values()),
        is_assigned=False,
        rebalances=_noted(group, ended, now, is_over=not members),
        rebalance_count=group.rebalance_count + 1,
        emptied_ms=0 if members else now.wall_ms,
        round=None,
        sessions={member.id: now.monotonic_ms + member.session_timeout_ms for member in members.values()},
        syncing={},
        sync_deadline_ms=now.monotonic_ms + max((each.rebalance_timeout_ms for each in members.values()), default=0),
    )
    answers = [TicketReply(joiner.ticket, current_generation(group, each)) for each, joiner in ended.joiners.items()]
    return ClassicStep(group, tuple(answers))


def _waiting_for(group: ClassicGroup, begun: Round, absent: Mapping[str, ClassicMember]) -> ClassicGroup:
    """Return the group with only the members that are away, and a round until the first of their sessions expires."""
    sessions = {each: group.sessions[each] for each in absent}
    extended = replace(begun, deadline_ms=min(sessions.values()), tally=member_counts_of(absent.values()))
    return replace(group, members=absent, is_assigned=False, sessions=sessions, round=extended)


def current_generation(group: ClassicGroup, member_id: str) -> Joined:
    """Return the reply to a member about its generation."""
    members: tuple[LeaderView, ...] = ()
    if member_id == group.leader:
        members = tuple(
            LeaderView(member.id, member.instance_id, member.metadata(group.protocol))
            for member in group.members.values()
        )
    return Joined(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        member_id=member_id,
        members=members,
        is_assigned=group.is_assigned,
    )


def assign(group: ClassicGroup, assignments: Mapping[str, bytes], now: Now) -> ClassicGroup:
    """Set the assignments of the leader; members without one get nothing."""
    members = {
        member.id: replace(member, assignment=bytes(assignments.get(member.id, b"")))
        for member in group.members.values()
    }
    moves = _moves(group.members.values(), members.values()) if group.protocol_type == CONSUMER else 0
    *earlier, latest = group.rebalances
    finished = Rebalance(latest.epoch, latest.reason, latest.began_ms, now.wall_ms, moves)
    return replace(
        group,
        members=members,
        is_assigned=True,
        rebalances=(*earlier, finished),
        move_count=group.move_count + moves,
    )


def _moves(before: Iterable[ClassicMember], after: Iterable[ClassicMember]) -> int:
    """Return how many partitions moved between members; zero if there are too many to count."""
    former, owners = _owners(before), _owners(after)
    if former is None or owners is None:
        return 0
    return sum(1 for each, owner in owners.items() if former.get(each, owner) != owner)


def _owners(members: Iterable[ClassicMember]) -> dict[TopicPartition, str] | None:
    owners: dict[TopicPartition, str] = {}
    for member in members:
        owners.update((each, member.id) for each in assigned_partitions(member.assignment) or ())
        if len(owners) > _COUNTED_MAX:
            return None
    return owners


def _leader(group: ClassicGroup, ended: Round) -> str:
    """Return the leader: the previous one if it has joined, else the member that joined first."""
    return group.leader if group.leader in ended.joiners else next(iter(ended.joiners), "")


def chosen_protocol(members: Iterable[ClassicMember]) -> str | None:
    """Return the protocol that most members prefer among those that all of them know."""
    names = [[protocol.name for protocol in member.protocols] for member in members]
    if not names:
        return None
    common = set(names[0]).intersection(*names[1:])
    votes = Counter(next(name for name in known if name in common) for known in names)
    return max(sorted(votes), key=lambda name: votes[name])


def _noted(group: ClassicGroup, ended: Round, now: Now, *, is_over: bool) -> tuple[Rebalance, ...]:
    noted = Rebalance(group.generation + 1, ended.reason, ended.began_ms, now.wall_ms if is_over else -1)
    return (*group.rebalances, noted)[-REBALANCES_KEPT:]
