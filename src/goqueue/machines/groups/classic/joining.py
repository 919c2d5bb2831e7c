"""Joins to a classic group: of new members, of current members, and of static members that replace their former
process.
"""

from __future__ import annotations

from dataclasses import replace

from goqueue.errors import (
    GroupFull,
    InconsistentProtocol,
    InstanceFenced,
    MemberIdRequired,
    RebalanceInProgress,
)
from goqueue.machines.decision import Now, TicketReply
from goqueue.machines.groups.classic.checks import check_instance, heard, unknown_member, without
from goqueue.machines.groups.classic.consumer_protocol import CONSUMER, subscribed_topics
from goqueue.machines.groups.classic.rounds import (
    begin_round,
    chosen_protocol,
    complete_if_ready,
    current_generation,
    kept_open,
)
from goqueue.machines.groups.classic.values import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    ClassicStep,
    GroupMemberCounts,
    Join,
    Joiner,
    member_counts_of,
    weighed,
)
from goqueue.machines.groups.limits import (
    GROUP_BYTES_MAX,
    MEMBERS_MAX,
    NEWCOMER_MAX_MS,
    PENDING_MAX,
    PENDING_MAX_MS,
    check_join,
)

# Clients wait for the end of a round a little longer than its longest duration, as far as they know it.
_GRACE_MS = 5_000


def join(group: ClassicGroup | None, command: Join, ticket: int, now: Now) -> ClassicStep:
    """Let a member join; it gets its reply when the round is over."""
    check_join(command)
    group = group or ClassicGroup(name=command.group)
    member = _member(command)
    _check_fit(group, command, member)
    if not command.member_id:
        return _join_without_id(group, command, member, ticket, now)
    check_instance(group, command.member_id, command.instance_id)
    if group.find(command.member_id) is not None:
        return _join_again(group, command, member, ticket, now)
    if command.member_id not in group.pending:
        raise unknown_member(group, command.member_id)
    group = replace(group, pending=without(group.pending, [command.member_id]))
    return _enter(group, command, member, ticket, now)


def _join_without_id(group: ClassicGroup, command: Join, member: ClassicMember, ticket: int, now: Now) -> ClassicStep:
    former = group.member_of_instance(command.instance_id)
    if former is not None:
        return _take_over(group, former, command, member, ticket, now)
    if command.needs_known_id and command.instance_id is None:
        return _give_id(group, command, ticket, now)
    return _enter(group, command, member, ticket, now)


def _give_id(group: ClassicGroup, command: Join, ticket: int, now: Now) -> ClassicStep:
    """Send a new member the id to join with; the id expires soon."""
    if len(group.pending) >= PENDING_MAX:
        raise GroupFull(f"group {group.name!r} has given {PENDING_MAX} ids to clients that have not joined")
    deadline_ms = now.monotonic_ms + min(command.session_timeout_ms, PENDING_MAX_MS)
    told = MemberIdRequired("a new member has to join with the id that it is given", member_id=command.new_id)
    return ClassicStep(
        replace(group, pending={**group.pending, command.new_id: deadline_ms}), (TicketReply(ticket, told),)
    )


def _enter(group: ClassicGroup, command: Join, member: ClassicMember, ticket: int, now: Now) -> ClassicStep:
    """Add a new member to the current round, or begin one."""
    group, answers = begin_round(group, f"member {member.id} joined", now, timeout_ms=member.rebalance_timeout_ms)
    group = replace(group, round=kept_open(group.round, now))
    return _add_joiner(group, member, command.protocol_type, ticket, now, answers)


def _join_again(group: ClassicGroup, command: Join, member: ClassicMember, ticket: int, now: Now) -> ClassicStep:
    known = group.members.get(member.id)
    is_same = known is not None and known.protocols == member.protocols
    if group.state is ClassicState.COMPLETING and is_same:
        return ClassicStep(heard(group, member.id, now), (TicketReply(ticket, current_generation(group, member.id)),))
    if group.state is ClassicState.STABLE and is_same and group.leader != member.id:
        return ClassicStep(heard(group, member.id, now), (TicketReply(ticket, current_generation(group, member.id)),))
    why = "joined again" if is_same else "subscribes to other topics, or assigns otherwise"
    group, answers = begin_round(group, f"member {member.id} {command.reason or why}", now)
    return _add_joiner(group, member, command.protocol_type, ticket, now, answers)


def _take_over(
    group: ClassicGroup, former: ClassicMember, command: Join, member: ClassicMember, ticket: int, now: Now
) -> ClassicStep:
    """Let a static member that comes back under its instance id replace its former member."""
    member = replace(member, assignment=former.assignment)
    group, answers = _hand_down(group, former, member, now)
    is_same_type = command.protocol_type == group.protocol_type
    if group.state is ClassicState.STABLE and is_same_type and _reads_the_same(group, former, member):
        group = replace(group, members={**group.members, member.id: member})
        return ClassicStep(group, (*answers, TicketReply(ticket, current_generation(group, member.id))))
    group, told = begin_round(group, f"member {member.id} came back as instance {member.instance_id}", now)
    return _add_joiner(group, member, command.protocol_type, ticket, now, (*answers, *told))


def _hand_down(group: ClassicGroup, former: ClassicMember, heir: ClassicMember, now: Now) -> ClassicStep:
    """Give the new member the former one's place in the generation, and fence requests of the former one that wait.

    The new member's own protocols count from the next generation on.
    """
    fenced = InstanceFenced(f"member {former.id} was replaced by {heir.id}, which has its instance id")
    answers: tuple[TicketReply, ...] = ()
    if former.id in group.syncing:
        answers += (TicketReply(group.syncing[former.id], fenced),)
        group = replace(group, syncing=without(group.syncing, [former.id]))
    begun = group.round
    if begun is not None and former.id in begun.joiners:
        answers += (TicketReply(begun.joiners[former.id].ticket, fenced),)
        joiners, newcomers = without(begun.joiners, [former.id]), without(begun.newcomers, [former.id])
        group = replace(group, round=replace(begun, joiners=joiners, newcomers=newcomers))
    if former.id in group.members:
        place = replace(group.members[former.id], id=heir.id)
        members = dict((heir.id, place) if each == former.id else (each, group.members[each]) for each in group.members)
        leader = heir.id if group.leader == former.id else group.leader
        sessions = {**without(group.sessions, [former.id]), heir.id: now.monotonic_ms + heir.session_timeout_ms}
        group = replace(group, members=members, leader=leader, sessions=sessions)
    if group.round is not None:
        group = replace(group, round=replace(group.round, tally=member_counts_of(group.everybody().values())))
    return ClassicStep(group, answers)


def _reads_the_same(group: ClassicGroup, former: ClassicMember, member: ClassicMember) -> bool:
    """Return whether the generation can stay when a member replaces its former self."""
    if chosen_protocol({**group.members, member.id: member}.values()) != group.protocol:
        return False
    before, after = former.metadata(group.protocol), member.metadata(group.protocol)
    if group.protocol_type == CONSUMER and (topics := subscribed_topics(before)) is not None:
        # The rest of the subscription has the partitions that it owns, which differ after every start.
        return topics == subscribed_topics(after)
    return before == after


def _add_joiner(
    group: ClassicGroup,
    member: ClassicMember,
    protocol_type: str,
    ticket: int,
    now: Now,
    answers: tuple[TicketReply, ...],
) -> ClassicStep:
    begun = group.round
    assert begun is not None
    earlier = begun.joiners.get(member.id)
    if earlier is not None:
        answers += (TicketReply(earlier.ticket, RebalanceInProgress("the member has joined once more since")),)
    newcomers = begun.newcomers
    if member.id in group.members:
        member = replace(member, assignment=group.members[member.id].assignment)
    else:
        newcomers = {**newcomers, member.id: now.monotonic_ms + _patience_ms(member)}
    known = group.find(member.id)
    tally = begun.tally if known is None else begun.tally.without([known])
    joined = replace(
        begun,
        joiners={**begun.joiners, member.id: Joiner(member, ticket)},
        newcomers=newcomers,
        tally=tally.with_member(member),
        # Other members, if there are any, have its type already.
        protocol_type=protocol_type,
    )
    group = replace(group, round=joined, sessions=without(group.sessions, [member.id]))
    group, told = complete_if_ready(group, now)
    return ClassicStep(group, answers + told)


def _patience_ms(member: ClassicMember) -> int:
    """Return how long a new member can be expected to wait; later it joins again."""
    return min(max(member.session_timeout_ms, member.rebalance_timeout_ms) + _GRACE_MS, NEWCOMER_MAX_MS)


def _member(command: Join) -> ClassicMember:
    said = ClassicMember(
        id=command.member_id or command.new_id,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=max(command.rebalance_timeout_ms, 0),
        protocols=command.protocols,
    )
    return weighed(command.group, said)


# -- who fits


def _check_fit(group: ClassicGroup, command: Join, member: ClassicMember) -> None:
    """Refuse a member that shares no protocol with the others, or that exceeds a limit of the group."""
    if not command.protocol_type or not command.protocols:
        raise InconsistentProtocol("a member has to name a type of protocol, and at least one protocol")
    own = group.find(command.member_id) if command.member_id else group.member_of_instance(command.instance_id)
    if own is not None and _says_the_same(group, own, command):
        return
    tally = group.round.tally if group.round is not None else member_counts_of(group.members.values())
    others = tally if own is None else tally.without([own])
    if others.members:
        _check_protocols(group, others, command)
    if own is None and others.members >= MEMBERS_MAX:
        raise GroupFull(f"group {group.name!r} has {others.members} members")
    if others.stored_bytes + member.stored_bytes > GROUP_BYTES_MAX:
        raise GroupFull(
            f"the members of group {group.name!r} say more than can be stored at once",
            hint="use fewer members, or let them subscribe to less",
        )


def _says_the_same(group: ClassicGroup, own: ClassicMember, command: Join) -> bool:
    """Return whether a member sends the same protocols as before, in a generation that it fits into."""
    return group.round is None and command.protocol_type == group.protocol_type and own.protocols == command.protocols


def _check_protocols(group: ClassicGroup, others: GroupMemberCounts, command: Join) -> None:
    begun = group.round
    protocol_type = begun.protocol_type if begun is not None and begun.joiners else group.protocol_type
    if command.protocol_type != protocol_type:
        raise InconsistentProtocol(f"group {group.name!r} is of type {protocol_type!r}, not {command.protocol_type!r}")
    if not others.have_in_common(protocol.name for protocol in command.protocols):
        names = ", ".join(protocol.name for protocol in command.protocols)
        raise InconsistentProtocol(f"no protocol of {names} is known to all members of group {group.name!r}")
