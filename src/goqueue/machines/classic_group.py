"""Classic groups: members join in rounds, one of them assigns, and each round begins a new generation.

| state      | join                                   | sync                    | heartbeat    | a member goes   |
|------------|----------------------------------------|-------------------------|--------------|-----------------|
| empty      | new member: a round begins             | unknown member          | unknown      |                 |
| preparing  | waits for the end of the round         | rebalance in progress   | the same     | may end it      |
| completing | same as before: told the generation    | waits for the leader's, | fine         | a round begins  |
|            | again; otherwise a round begins        | which makes it stable   |              |                 |
| stable     | follower, same as before: told the     | told the assignment     | fine         | a round begins  |
|            | generation; otherwise a round begins   |                         |              |                 |

A round ends when all members of the last generation have joined again and every id that was given out has come, or at
its deadline: whoever is missing then is no member any more, except for members with an instance id, who may be away
until their session is over. The new generation is stored before anybody is told of it, so no generation is ever given
twice, whatever happens to the broker. Rounds are not stored: after a restart, a group is stable if all that its last
generation had was assigned to those who are still there, and begins a round otherwise.

Functions take a group and return another one, with the answers for those who asked now or earlier. Refusals are raised,
and leave the group as it was. Moments in names ending in `_ms` are monotonic, except for those that are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from goqueue.errors import GoQueueError, InconsistentProtocol, RebalanceInProgress, StaleGeneration, UnknownMember
from goqueue.machines.classic_checks import (
    check_instance,
    check_member,
    has_member,
    heard,
    in_progress,
    require_group,
    unknown_member,
    without,
)
from goqueue.machines.classic_rounds import assign, begin_round, complete_if_ready, complete_round
from goqueue.machines.classic_values import (
    ClassicGroup,
    ClassicState,
    Heartbeat,
    Leave,
    Leaver,
    Step,
    Sync,
    Synced,
)
from goqueue.machines.consumer_protocol import CONSUMER, assigned_partitions
from goqueue.machines.decision import Answer, Now
from goqueue.machines.group_values import TopicPartition


def sync(group: ClassicGroup | None, command: Sync, ticket: int, now: Now) -> Step:
    """Give a member its assignment, now or when the leader has brought it."""
    group = require_group(group, command.group, command.member_id)
    check_member(group, command.member_id, command.instance_id, command.generation)
    if command.protocol_type not in (None, group.protocol_type) or command.protocol not in (None, group.protocol):
        raise InconsistentProtocol(f"group {group.name!r} is assigned by {group.protocol!r}")
    if group.round is not None:
        raise in_progress(group)
    group = heard(group, [command.member_id], now)
    if group.is_assigned:
        return Step(group, (Answer(ticket, _synced(group, command.member_id)),))
    earlier = group.syncing.get(command.member_id)
    answers: tuple[Answer, ...] = ()
    if earlier is not None:
        answers = (Answer(earlier, RebalanceInProgress("the member has asked once more since")),)
    group = replace(group, syncing={**group.syncing, command.member_id: ticket})
    if command.member_id != group.leader:
        return Step(group, answers)
    group = assign(group, command.assignments, now)
    answers += tuple(Answer(waiting, _synced(group, member)) for member, waiting in group.syncing.items())
    return Step(replace(heard(group, group.syncing, now), syncing={}), answers)


def _synced(group: ClassicGroup, member_id: str) -> Synced:
    return Synced(group.protocol_type, group.protocol, group.members[member_id].assignment)


def heartbeat(group: ClassicGroup | None, command: Heartbeat, ticket: int, now: Now) -> Step:
    """Take note that a member is alive; RebalanceInProgress calls it to join again."""
    group = require_group(group, command.group, command.member_id)
    check_member(group, command.member_id, command.instance_id, command.generation)
    group = heard(group, [command.member_id], now)
    told = in_progress(group) if group.round is not None else None
    return Step(group, (Answer(ticket, told),))


def leave(group: ClassicGroup | None, command: Leave, ticket: int, now: Now) -> Step:
    """Let members go; the answer has an error or None for each of them."""
    results: list[GoQueueError | None] = []
    gone: dict[str, str] = {}
    for leaver in command.leavers:
        try:
            member_id = _leaving(group, leaver)
            gone[member_id] = f"member {member_id} left" + (f": {leaver.reason}" if leaver.reason else "")
            results.append(None)
        except GoQueueError as error:
            results.append(error)
    answer = Answer(ticket, tuple(results))
    if group is None or not gone:
        return Step(group or ClassicGroup(name=command.group), (answer,))
    group, answers = remove(group, gone, now)
    return Step(group, (*answers, answer))


def _leaving(group: ClassicGroup | None, leaver: Leaver) -> str:
    """Return the id of the member that leaves."""
    if group is None:
        raise UnknownMember(f"there is no member {leaver.member_id!r}")
    if leaver.instance_id is not None and not leaver.member_id:
        found = group.member_of_instance(leaver.instance_id)
        if found is None:
            raise UnknownMember(f"group {group.name!r} has no member with instance id {leaver.instance_id!r}")
        return found.id
    check_instance(group, leaver.member_id, leaver.instance_id)
    if not has_member(group, leaver.member_id) and leaver.member_id not in group.pending:
        raise unknown_member(group, leaver.member_id)
    return leaver.member_id


def remove(group: ClassicGroup, gone: Mapping[str, str], now: Now) -> Step:
    """Take members out of a group, for the reasons given; those left have to join again."""
    error = UnknownMember(f"the member is no longer in group {group.name!r}")
    answers = [Answer(ticket, error) for member, ticket in group.syncing.items() if member in gone]
    was_member = any(member in group.members for member in gone)
    if group.round is not None:
        answers += [Answer(joiner.ticket, error) for each, joiner in group.round.joiners.items() if each in gone]
        group = replace(group, round=replace(group.round, joiners=without(group.round.joiners, *gone)))
    if was_member:
        # What they had is nobody's until the next generation, and that has to be known after a restart, too.
        group = replace(group, members=without(group.members, *gone), is_assigned=False)
        if not group.members:
            group = replace(group, leader="", protocol=None, emptied_ms=now.wall_ms)
    group = replace(
        group,
        sessions=without(group.sessions, *gone),
        pending=without(group.pending, *gone),
        syncing=without(group.syncing, *gone),
    )
    if was_member and group.round is None:
        group, told = begin_round(group, "; ".join(filter(None, gone.values())), now)
        answers += told
    group, told = complete_if_ready(group, now)
    return Step(group, (*answers, *told))


# -- time


def tick(group: ClassicGroup, now: Now) -> Step:
    """Do what is due: give up members that are silent, and end rounds whose time is over."""
    moment = now.monotonic_ms
    gone = {
        member: f"member {member} was silent for {group.members[member].session_timeout_ms / 1000:g} s"
        for member, deadline in _sessions(group).items()
        if deadline <= moment
    }
    gone |= {member: "" for member, deadline in group.pending.items() if deadline <= moment}
    if group.state is ClassicState.COMPLETING and group.sync_deadline_ms <= moment:
        late = group.members.keys() - group.syncing.keys() - gone.keys()
        gone |= {member: f"member {member} did not ask for its assignment in time" for member in sorted(late)}
    answers: tuple[Answer, ...] = ()
    if gone:
        group, answers = remove(group, gone, now)
    told: tuple[Answer, ...] = ()
    if group.round is not None and group.round.deadline_ms <= moment:
        group, told = complete_round(group, now)
    elif group.round is not None:
        group, told = complete_if_ready(group, now)
    return Step(group, answers + told)


def deadline_ms(group: ClassicGroup) -> int | None:
    """Return when `tick` has something to do next."""
    deadlines = [*_sessions(group).values(), *group.pending.values()]
    if group.round is not None:
        # Behind the time that it is kept open, only somebody who comes or goes can end a round before its deadline.
        is_waiting = not group.round.joiners.keys() >= group.members.keys() or bool(group.pending)
        deadlines.append(group.round.deadline_ms if is_waiting else group.round.open_until_ms)
    elif group.state is ClassicState.COMPLETING:
        deadlines.append(group.sync_deadline_ms)
    return min(deadlines, default=None)


def _sessions(group: ClassicGroup) -> Mapping[str, int]:
    """Return the sessions of members that should be heard of: not of those who wait for an answer."""
    waiting = group.round.joiners if group.round is not None else group.syncing
    return without(group.sessions, *waiting) if waiting else group.sessions


def revive(group: ClassicGroup, now: Now) -> ClassicGroup:
    """Let everybody's session begin anew, as nobody could be heard while the broker was away.

    Members that had not all got their assignments have to join again: perhaps one of them had left.
    """
    sessions = {member.id: now.monotonic_ms + member.session_timeout_ms for member in group.members.values()}
    group = replace(group, sessions=sessions)
    if group.members and not group.is_assigned:
        group, _ = begin_round(group, "the broker was started again", now)
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
    """Return for each partition why a member cannot commit it, or None; raises what forbids them all.

    A member may commit what nobody else has: it may be about to give back what it was not assigned again. Whoever is no
    member (an administrator, a consumer that assigns itself) may commit while there are no members. Within transactions
    also otherwise: old producers cannot say for which member they commit, and it is their epoch that fences them.
    """
    is_anonymous = generation < 0 and not member_id and instance_id is None
    if is_anonymous and (is_transactional or group.state is ClassicState.EMPTY):
        return [None] * len(partitions)
    check_member(group, member_id, instance_id, generation)
    if group.state is ClassicState.COMPLETING and not is_transactional:
        raise in_progress(group)
    if group.protocol_type != CONSUMER:
        return [None] * len(partitions)
    own = assigned_partitions(group.members[member_id].assignment) or frozenset()
    return [None if each in own else _refusal(group, each) for each in partitions]


def _refusal(group: ClassicGroup, partition: TopicPartition) -> GoQueueError | None:
    for member in group.members.values():
        if partition in (assigned_partitions(member.assignment) or ()):
            return StaleGeneration(f"{partition.topic}-{partition.partition} is assigned to member {member.id}")
    return None
