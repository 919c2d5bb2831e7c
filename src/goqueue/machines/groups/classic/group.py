"""Classic groups: members join in rounds, one of them assigns, and each round begins a new generation.

| state      | join                                   | sync                    | heartbeat    | a member goes   |
|------------|----------------------------------------|-------------------------|--------------|-----------------|
| empty      | new member: a round begins             | unknown member          | unknown      |                 |
| preparing  | waits for the end of the round         | rebalance in progress   | the same     | may end it      |
| completing | same protocols: gets the generation    | waits for the leader's, | fine         | a round begins  |
|            | again; otherwise a round begins        | which makes it stable   |              |                 |
| stable     | follower, same protocols: gets the     | gets the assignment     | fine         | a round begins  |
|            | generation; otherwise a round begins   |                         |              |                 |

A round ends when all members of the last generation have joined again and every id that was handed out has joined, or
at its deadline: members that are missing then are removed, except for members with an instance id, which may be away
until their session expires; if there are no others, the round goes on for them. A new joiner is removed if the round
lasts longer than a client waits, since it may be gone.

The new generation is stored before any member sees it, so no generation is ever used twice, whatever happens to the
broker. Rounds are not stored: after a restart, a group is stable if all partitions of its last generation are with
present members, and begins a round otherwise. `limits` bounds all sizes.

Functions take a group and return the next one, with the replies to current and earlier commands. Refusals are raised,
and leave the group as it was. Moments in names ending in `_ms` are monotonic, except for stored ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from goqueue.errors import GoQueueError, InconsistentProtocol, RebalanceInProgress, StaleGeneration, UnknownMember
from goqueue.machines.decision import Now, TicketReply
from goqueue.machines.groups.classic.checks import (
    answered,
    check_member,
    check_owner,
    heard,
    in_progress,
    require_group,
    unknown_member,
    without,
)
from goqueue.machines.groups.classic.consumer_protocol import CONSUMER, assigned_of
from goqueue.machines.groups.classic.rounds import assign, begin_round, complete_if_ready, complete_round
from goqueue.machines.groups.classic.values import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    ClassicStep,
    Heartbeat,
    Leave,
    Leaver,
    Sync,
    Synced,
)
from goqueue.machines.groups.limits import check_leave, check_sync
from goqueue.model.topic import TopicPartition


def sync(group: ClassicGroup | None, command: Sync, ticket: int, now: Now) -> ClassicStep:
    """Return a member's assignment, now or when the leader has sent it."""
    check_sync(command)
    group = require_group(group, command.group, command.member_id)
    check_member(group, command.member_id, command.instance_id, command.generation)
    if command.protocol_type not in (None, group.protocol_type) or command.protocol not in (None, group.protocol):
        raise InconsistentProtocol(f"group {group.name!r} is assigned by {group.protocol!r}")
    if group.round is not None:
        raise in_progress(group)
    if group.is_assigned:
        return ClassicStep(
            heard(group, command.member_id, now), (TicketReply(ticket, _synced(group, command.member_id)),)
        )
    earlier = group.syncing.get(command.member_id)
    answers: tuple[TicketReply, ...] = ()
    if earlier is not None:
        answers = (TicketReply(earlier, RebalanceInProgress("the member has asked once more since")),)
    group = replace(
        group,
        syncing={**group.syncing, command.member_id: ticket},
        sessions=without(group.sessions, [command.member_id]),
    )
    if command.member_id != group.leader:
        return ClassicStep(group, answers)
    group = assign(group, command.assignments, now)
    answers += tuple(TicketReply(waiting, _synced(group, member)) for member, waiting in group.syncing.items())
    return ClassicStep(answered(group, now), answers)


def _synced(group: ClassicGroup, member_id: str) -> Synced:
    return Synced(group.protocol_type, group.protocol, group.members[member_id].assignment)


def heartbeat(group: ClassicGroup | None, command: Heartbeat, ticket: int, now: Now) -> ClassicStep:
    """Renew the session of a member; RebalanceInProgress calls it to join again."""
    group = require_group(group, command.group, command.member_id)
    check_member(group, command.member_id, command.instance_id, command.generation)
    group = heard(group, command.member_id, now)
    told = in_progress(group) if group.round is not None else None
    return ClassicStep(group, (TicketReply(ticket, told),))


def leave(group: ClassicGroup | None, command: Leave, ticket: int, now: Now) -> ClassicStep:
    """Remove members; the reply has an error or None for each of them."""
    check_leave(command)
    results: list[GoQueueError | None] = []
    gone: dict[str, str] = {}
    instances: dict[str, ClassicMember] = {}
    if group is not None and any(leaver.instance_id is not None for leaver in command.leavers):
        # Looked up once, since many members of a large group may leave at once.
        instances = {each.instance_id: each for each in group.everybody().values() if each.instance_id is not None}
    for leaver in command.leavers:
        try:
            member_id = _leaving(group, leaver, instances)
            gone[member_id] = f"member {member_id} left" + (f": {leaver.reason}" if leaver.reason else "")
            results.append(None)
        except GoQueueError as error:
            results.append(error)
    answer = TicketReply(ticket, tuple(results))
    if group is None or not gone:
        return ClassicStep(group or ClassicGroup(name=command.group), (answer,))
    group, answers = remove(group, gone, now)
    return ClassicStep(group, (*answers, answer))


def _leaving(group: ClassicGroup | None, leaver: Leaver, instances: Mapping[str, ClassicMember]) -> str:
    """Return the id of the member that leaves."""
    if group is None:
        raise UnknownMember(f"there is no member {leaver.member_id!r}")
    if leaver.instance_id is not None:
        owner = instances.get(leaver.instance_id)
        member_id = leaver.member_id or (owner.id if owner is not None else "")
        return check_owner(group, leaver.instance_id, owner, member_id).id
    if group.find(leaver.member_id) is None and leaver.member_id not in group.pending:
        raise unknown_member(group, leaver.member_id)
    return leaver.member_id


def remove(group: ClassicGroup, gone: Mapping[str, str], now: Now) -> ClassicStep:
    """Remove members from a group, for the given reasons; the others have to join again."""
    error = UnknownMember(f"the member is no longer in group {group.name!r}")
    answers = [TicketReply(ticket, error) for member, ticket in group.syncing.items() if member in gone]
    was_member = any(member in group.members for member in gone)
    begun = group.round
    if begun is not None:
        answers += [TicketReply(begun.joiners[each].ticket, error) for each in gone if each in begun.joiners]
        joiners, newcomers = without(begun.joiners, gone), without(begun.newcomers, gone)
        tally = begun.tally.without(found for each in gone if (found := group.find(each)) is not None)
        group = replace(group, round=replace(begun, joiners=joiners, newcomers=newcomers, tally=tally))
    if was_member:
        # Partitions of removed members have no owner until the next generation, and a restart must not forget that.
        group = replace(group, members=without(group.members, gone), is_assigned=False)
        if not group.members:
            group = replace(group, leader="", protocol=None, emptied_ms=now.wall_ms)
    group = replace(
        group,
        sessions=without(group.sessions, gone),
        pending=without(group.pending, gone),
        syncing=without(group.syncing, gone),
    )
    if was_member and group.round is None:
        group, told = begin_round(group, "; ".join(filter(None, gone.values())), now)
        answers += told
    group, told = complete_if_ready(group, now)
    return ClassicStep(group, (*answers, *told))


# -- deadlines


def tick(group: ClassicGroup, now: Now) -> ClassicStep:
    """Handle the deadlines of a group: remove expired members, and end rounds that are over."""
    moment = now.monotonic_ms
    gone = {
        member: f"member {member} was silent for {group.members[member].session_timeout_ms / 1000:g} s"
        for member, deadline in group.sessions.items()
        if deadline <= moment
    }
    strangers = {**group.pending, **(group.round.newcomers if group.round is not None else {})}
    gone |= {member: "" for member, deadline in strangers.items() if deadline <= moment}
    if group.state is ClassicState.COMPLETING and group.sync_deadline_ms <= moment:
        late = group.members.keys() - group.syncing.keys() - gone.keys()
        gone |= {member: f"member {member} did not ask for its assignment in time" for member in sorted(late)}
    answers: tuple[TicketReply, ...] = ()
    if gone:
        group, answers = remove(group, gone, now)
    told: tuple[TicketReply, ...] = ()
    if group.round is not None and group.round.deadline_ms <= moment:
        group, told = complete_round(group, now)
    elif group.round is not None:
        group, told = complete_if_ready(group, now)
    return ClassicStep(group, answers + told)


def deadline_ms(group: ClassicGroup) -> int | None:
    """Return the next deadline of `tick`."""
    deadlines: list[int] = []
    waits = [group.sessions, group.pending]
    if group.round is not None:
        waits.append(group.round.newcomers)
        # After the time that it is kept open, only a join or leave can end a round before its deadline.
        is_waiting = not group.round.joiners.keys() >= group.members.keys() or bool(group.pending)
        deadlines.append(group.round.deadline_ms if is_waiting else group.round.open_until_ms)
    elif group.state is ClassicState.COMPLETING:
        deadlines.append(group.sync_deadline_ms)
    deadlines += [min(wait.values()) for wait in waits if wait]
    return min(deadlines, default=None)


def revive(group: ClassicGroup, now: Now) -> ClassicGroup:
    """Restart all sessions, since no heartbeats could arrive while the broker was away.

    If some members did not have their assignments yet, all have to join again: one of them may have left meanwhile.
    """
    sessions = {member.id: now.monotonic_ms + member.session_timeout_ms for member in group.members.values()}
    group = replace(group, sessions=sessions)
    if group.members and not group.is_assigned:
        group, _ = begin_round(group, "the broker restarted", now)
    return group


# -- checks


def check_commit(
    group: ClassicGroup,
    member_id: str,
    generation: int,
    instance_id: str | None,
    partitions: Sequence[TopicPartition],
    *,
    is_transactional: bool = False,
) -> list[GoQueueError | None]:
    """Return for each partition why a member cannot commit it, or None; raise what forbids the whole commit.

    A member may commit partitions that no other member has: it may be about to revoke one that it was not assigned
    again. Callers that are not members (an administrator, a consumer that assigns itself) may commit while the group
    has no members. Within transactions they always may: old producers cannot name their member, and their own epoch
    fences them.
    """
    is_anonymous = generation < 0 and not member_id and instance_id is None
    if is_anonymous and (is_transactional or group.state is ClassicState.EMPTY):
        return [None] * len(partitions)
    check_member(group, member_id, instance_id, generation)
    if group.state is ClassicState.COMPLETING and not is_transactional:
        raise in_progress(group)
    if group.protocol_type != CONSUMER:
        return [None] * len(partitions)
    theirs = frozenset(partitions) - assigned_of(group.members[member_id].assignment, partitions)
    owners: dict[TopicPartition, str] = {}
    for other in group.members.values() if theirs else ():
        owners.update((each, other.id) for each in assigned_of(other.assignment, theirs))
    return [_refusal(each, owners.get(each)) for each in partitions]


def _refusal(partition: TopicPartition, owner: str | None) -> GoQueueError | None:
    if owner is None:
        return None
    return StaleGeneration(f"{partition.topic}-{partition.partition} is assigned to member {owner}")
