"""Joining a classic group: new members, members that come again, and members that take over from their former self."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from goqueue.errors import (
    InconsistentProtocol,
    InstanceFenced,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
)
from goqueue.machines.classic_checks import check_instance, heard, unknown_member, without
from goqueue.machines.classic_rounds import (
    begin_round,
    chosen_protocol,
    complete_if_ready,
    current_generation,
    kept_open,
)
from goqueue.machines.classic_values import ClassicGroup, ClassicMember, ClassicState, Join, Joiner, Step
from goqueue.machines.consumer_protocol import CONSUMER, subscribed_topics
from goqueue.machines.decision import Answer, Now

SESSION_TIMEOUT_MIN_MS = 6_000
SESSION_TIMEOUT_MAX_MS = 1_800_000


def join(group: ClassicGroup | None, command: Join, ticket: int, now: Now) -> Step:
    """Let a member join; it is answered when the round that it joins is over."""
    if not SESSION_TIMEOUT_MIN_MS <= command.session_timeout_ms <= SESSION_TIMEOUT_MAX_MS:
        raise InvalidSessionTimeout(
            f"a session of {command.session_timeout_ms} ms is not allowed",
            hint=f"{SESSION_TIMEOUT_MIN_MS} to {SESSION_TIMEOUT_MAX_MS} ms are",
        )
    group = group or ClassicGroup(name=command.group)
    _check_protocols(group, command)
    if not command.member_id:
        return _join_without_id(group, command, ticket, now)
    check_instance(group, command.member_id, command.instance_id)
    is_joining = group.round is not None and command.member_id in group.round.joiners
    if command.member_id in group.members or is_joining:
        return _join_again(group, command, ticket, now)
    if command.member_id not in group.pending:
        raise unknown_member(group, command.member_id)
    pending = without(group.pending, command.member_id)
    return _enter(replace(group, pending=pending), command, command.member_id, ticket, now)


def _join_without_id(group: ClassicGroup, command: Join, ticket: int, now: Now) -> Step:
    former = group.member_of_instance(command.instance_id)
    if former is not None:
        return _take_over(group, former, command, ticket, now)
    if command.needs_known_id and command.instance_id is None:
        pending = {**group.pending, command.new_id: now.monotonic_ms + command.session_timeout_ms}
        told = MemberIdRequired("a new member has to join with the id that it is given", member_id=command.new_id)
        return Step(replace(group, pending=pending), (Answer(ticket, told),))
    return _enter(group, command, command.new_id, ticket, now)


def _enter(group: ClassicGroup, command: Join, member_id: str, ticket: int, now: Now) -> Step:
    """Let a new member into the round under way, or into a new one."""
    member = _member(command, member_id)
    group, answers = begin_round(group, f"member {member_id} joined", now, timeout_ms=member.rebalance_timeout_ms)
    group = replace(group, round=kept_open(group.round, now))
    return _add_joiner(group, member, command.protocol_type, ticket, now, answers)


def _join_again(group: ClassicGroup, command: Join, ticket: int, now: Now) -> Step:
    known = group.members.get(command.member_id)
    member = _member(command, command.member_id)
    is_same = known is not None and known.protocols == member.protocols
    if group.state is ClassicState.COMPLETING and is_same:
        return Step(heard(group, [member.id], now), (Answer(ticket, current_generation(group, member.id)),))
    if group.state is ClassicState.STABLE and is_same and group.leader != member.id:
        return Step(heard(group, [member.id], now), (Answer(ticket, current_generation(group, member.id)),))
    why = "joined again" if is_same else "subscribes to other topics, or assigns otherwise"
    group, answers = begin_round(group, f"member {member.id} {command.reason or why}", now)
    return _add_joiner(group, member, command.protocol_type, ticket, now, answers)


def _take_over(group: ClassicGroup, former: ClassicMember, command: Join, ticket: int, now: Now) -> Step:
    """Let a member that has come back under its instance id take the place of its former self."""
    member = replace(_member(command, command.new_id), assignment=former.assignment)
    group, answers = _hand_down(group, former, member, now)
    is_same_type = command.protocol_type == group.protocol_type
    if group.state is ClassicState.STABLE and is_same_type and _reads_the_same(group, former, member):
        group = replace(group, members={**group.members, member.id: member})
        return Step(group, (*answers, Answer(ticket, current_generation(group, member.id))))
    group, told = begin_round(group, f"member {member.id} came back as instance {member.instance_id}", now)
    return _add_joiner(group, member, command.protocol_type, ticket, now, (*answers, *told))


def _hand_down(group: ClassicGroup, former: ClassicMember, heir: ClassicMember, now: Now) -> Step:
    """Let the heir have its former self's place in the generation, and tell whoever still waits as that one.

    What the heir says for itself counts from the next generation on.
    """
    fenced = InstanceFenced(f"member {former.id} was replaced by {heir.id}, which has its instance id")
    answers: tuple[Answer, ...] = ()
    if former.id in group.syncing:
        answers += (Answer(group.syncing[former.id], fenced),)
        group = replace(group, syncing=without(group.syncing, former.id))
    if group.round is not None and former.id in group.round.joiners:
        answers += (Answer(group.round.joiners[former.id].ticket, fenced),)
        group = replace(group, round=replace(group.round, joiners=without(group.round.joiners, former.id)))
    if former.id in group.members:
        place = replace(group.members[former.id], id=heir.id)
        members = dict((heir.id, place) if each == former.id else (each, group.members[each]) for each in group.members)
        leader = heir.id if group.leader == former.id else group.leader
        sessions = {**without(group.sessions, former.id), heir.id: now.monotonic_ms + heir.session_timeout_ms}
        group = replace(group, members=members, leader=leader, sessions=sessions)
    return Step(group, answers)


def _reads_the_same(group: ClassicGroup, former: ClassicMember, member: ClassicMember) -> bool:
    """Tell whether a generation can stay as it is when a member takes the place of its former self."""
    if chosen_protocol({**group.members, member.id: member}.values()) != group.protocol:
        return False
    before, after = former.metadata(group.protocol), member.metadata(group.protocol)
    if group.protocol_type == CONSUMER and (topics := subscribed_topics(before)) is not None:
        # The rest tells which partitions it has, and that is another story after every start.
        return topics == subscribed_topics(after)
    return before == after


def _add_joiner(
    group: ClassicGroup, member: ClassicMember, protocol_type: str, ticket: int, now: Now, answers: tuple[Answer, ...]
) -> Step:
    assert group.round is not None
    earlier = group.round.joiners.get(member.id)
    if earlier is not None:
        answers += (Answer(earlier.ticket, RebalanceInProgress("the member has joined once more since")),)
    if member.id in group.members:
        member = replace(member, assignment=group.members[member.id].assignment)
    joiners = {**group.round.joiners, member.id: Joiner(member, ticket)}
    # If there are others, it is of their type already.
    joined = replace(group.round, joiners=joiners, protocol_type=protocol_type)
    group, told = complete_if_ready(replace(group, round=joined), now)
    return Step(group, answers + told)


def _member(command: Join, member_id: str) -> ClassicMember:
    return ClassicMember(
        id=member_id,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=max(command.rebalance_timeout_ms, 0),
        protocols=command.protocols,
    )


def _check_protocols(group: ClassicGroup, command: Join) -> None:
    """Refuse a member that could not be assigned anything together with the others."""
    if not command.protocol_type or not command.protocols:
        raise InconsistentProtocol("a member has to name a type of protocol, and at least one protocol")
    joiners = group.round.joiners if group.round else {}
    everybody = {**group.members, **{each: joiner.member for each, joiner in joiners.items()}}
    others = [
        member
        for member in everybody.values()
        if member.id != command.member_id and (member.instance_id is None or member.instance_id != command.instance_id)
    ]
    if not others:
        return
    protocol_type = group.round.protocol_type if joiners and group.round else group.protocol_type
    if command.protocol_type != protocol_type:
        raise InconsistentProtocol(f"group {group.name!r} is of type {protocol_type!r}, not {command.protocol_type!r}")
    known = Counter(protocol.name for member in others for protocol in member.protocols)
    if not any(known[protocol.name] == len(others) for protocol in command.protocols):
        names = ", ".join(protocol.name for protocol in command.protocols)
        raise InconsistentProtocol(f"no protocol of {names} is known to all members of group {group.name!r}")
