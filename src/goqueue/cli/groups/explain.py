"""Sentences on a group: its state, members, lag, rebalances, and what retention deletes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from goqueue.cli.terminal.times import age_text, moment_text
from goqueue.client import Group, GroupMember, GroupOffset, GroupPartition, GroupRebalance
from goqueue.model.units import count_text

_REBALANCES_MAX = 5
# A third of the usual session timeout.
_SILENT_LONG_S = 10.0
_NAMED_MAX = 8


class Sentence(NamedTuple):
    """A sentence and its subject; `is_trouble` asks for attention."""

    about: str
    text: str
    is_trouble: bool = False


def explained(group: Group) -> list[Sentence]:
    """Return sentences on the state of a group, each member, lag, retention and the last rebalances."""
    found = [_state(group)]
    for member in group.members:
        found += [_consumer(member)] if group.kind == "queue" else _member(group, member)
    found += _lag(group)
    found += [Sentence("retention", text, is_trouble=True) for text in retention_sentences(group)]
    found += _rebalances(group)
    return found


def _state(group: Group) -> Sentence:
    if group.kind == "offsets":
        return Sentence("state", f"Group {group.name} never had members; it has offsets that a client set by itself.")
    if group.kind == "queue":
        what = f"Group {group.name} is a queue group, {'paused' if group.state == 'paused' else _work(group)}"
        return Sentence("state", f"{what}; goqueue queue describe {group.name} tells more.")
    if not group.members:
        return Sentence("state", f"Group {group.name} has no members; its offsets are kept.")
    who = "the broker" if group.kind == "consumer" else "the members themselves"
    topics = ", ".join(group.topics) if group.topics else "topics that only its members know"
    held = sum(len(member.assigned) + len(member.revoking) for member in group.members)
    what = f"{count_text(len(group.members), 'member')} in generation {group.generation}, reading {topics}"
    how = f"{who} assigned {count_text(held, 'partition')} ({group.assignor or 'no assignor yet'})"
    if group.state == "rebalancing":
        return Sentence("state", f"Group {group.name} is rebalancing{_reason(group)}: {what}; {how}.")
    return Sentence("state", f"Group {group.name} is stable: {what}; {how}.")


def _work(group: Group) -> str:
    """Return how many consumers of a queue group hold messages."""
    if not group.members:
        return "idle"
    busy = sum(bool(member.in_flight) for member in group.members)
    if busy:
        return f"{count_text(busy, 'consumer')} of it {'has' if busy == 1 else 'have'} messages now"
    count = len(group.members)
    return f"{count_text(count, 'member')} of it {'has' if count == 1 else 'have'} none of its messages now"


def _consumer(member: GroupMember) -> Sentence:
    """Return the sentence on a consumer of a queue group; one that receives by HTTP has only a name."""
    held = count_text(member.in_flight or 0, "message")
    if not member.topics:
        return Sentence("member", f"{member_name(member)} holds {held}.")
    place = f" on {member.host}" if member.host else ""
    where = partitions_text(member.assigned)
    return Sentence("member", f"{member_name(member)} ({member.member_id}{place}) holds {held}, and looks at {where}.")


def _reason(group: Group) -> str:
    latest = group.rebalances[-1] if group.rebalances else None
    if latest is None or latest.ended_at is not None:
        return ""
    return f" since {moment_text(latest.began_at)}, because {latest.reason}"


def _member(group: Group, member: GroupMember) -> Iterator[Sentence]:
    name = member_name(member)
    place = f" on {member.host}" if member.host else ""
    yield Sentence("member", f"{name} ({member.member_id}{place}) reads {partitions_text(member.assigned)}.")
    if member.generation < 0:
        yield Sentence("member", f"{name} has left for a while, and its place is kept.")
    elif member.silent_seconds is not None and member.silent_seconds >= _SILENT_LONG_S:
        silence = age_text(member.silent_seconds)
        yield Sentence("member", f"{name} has been silent for {silence}; silent members are removed.", is_trouble=True)
    if member.state == "none" and not member.target and group.topics:
        yield Sentence("member", f"{name} has nothing to do: there are more members than partitions.")
    if member.state == "pending_revoke":
        yield _late(member, name)
    elif member.state == "pending_assign":
        yield _waiting(group, member, name)


def _late(member: GroupMember, name: str) -> Sentence:
    if member.revoke_within_seconds is None:
        return Sentence("member", f"{name} has not heard of the rebalance yet; its next heartbeat tells it.")
    what = partitions_text(member.revoking) if member.revoking else "what it had, and to join again"
    left = age_text(member.revoke_within_seconds)
    text = f"{name} was asked to give back {what}, and has not yet; it is removed if it takes {left} more."
    return Sentence("member", text, is_trouble=True)


def _waiting(group: Group, member: GroupMember, name: str) -> Sentence:
    wanted = set(member.target) - set(member.assigned)
    holders = {
        member_name(other)
        for other in group.members
        if other.member_id != member.member_id and wanted.intersection((*other.assigned, *other.revoking))
    }
    if not wanted:
        return Sentence("member", f"{name} waits for the others.")
    whose = f" from {', '.join(sorted(holders))}" if holders else "; its next heartbeat brings it"
    return Sentence("member", f"{name} waits for {partitions_text(wanted)}{whose}.")


def _lag(group: Group) -> Iterator[Sentence]:
    behind = sorted((each for each in group.offsets if each.lag), key=_severity, reverse=True)
    fresh = [each for each in group.offsets if each.offset is None and each.error is None]
    if behind:
        worst = behind[0]
        unread = count_text(group.lag or 0, "message")
        are = "is" if group.lag == 1 else "are"
        yield Sentence(
            "lag",
            f"{unread} in {count_text(len(behind), 'partition')} {are} unread{_oldest(group)}; "
            f"furthest behind is {worst.topic}-{worst.partition} with {_behind(worst)}.",
        )
    elif any(each.offset is not None for each in group.offsets):
        is_all = all(each.start_offset == each.end_offset for each in fresh)
        yield Sentence("lag", "It has read everything." if is_all else "It has read everything where it has committed.")
    if fresh:
        yield Sentence("lag", f"Nothing is committed yet for {partitions_text(map(_named, fresh))}.")
    if group.members and group.kind != "queue":
        orphans = [each for each in behind if each.owner is None]
        if orphans:
            yield Sentence("lag", f"No member reads {partitions_text(map(_named, orphans))}.", is_trouble=True)
    for each in group.offsets:
        if each.error is not None:
            text = f"{each.topic}-{each.partition} cannot be used: {each.error.message}"
            yield Sentence("lag", text, is_trouble=True)


def _severity(offset: GroupOffset) -> tuple[float, int]:
    return (offset.lag_seconds or 0.0, offset.lag or 0)


def _oldest(group: Group) -> str:
    return f", the oldest for {age_text(group.lag_seconds)}" if group.lag_seconds is not None else ""


def _behind(offset: GroupOffset) -> str:
    text = count_text(offset.lag or 0, "message")
    if offset.lag_seconds is not None:
        text += f", {age_text(offset.lag_seconds)}"
    if offset.owner is not None:
        text += f", read by {offset.owner.client_id or offset.owner.member_id}"
    return text


def _named(offset: GroupOffset) -> GroupPartition:
    return GroupPartition(offset.topic, offset.partition)


def _rebalances(group: Group) -> Iterator[Sentence]:
    if not group.rebalance_count:
        return
    total = count_text(group.rebalance_count, "rebalance")
    moved = count_text(group.move_count, "partition")
    yield Sentence("rebalance", f"{total} so far, which moved {moved} from one member to another; the latest first:")
    for each in _latest(group.rebalances):
        yield Sentence("rebalance", rebalance_text(each))


def _latest(rebalances: Sequence[GroupRebalance]) -> Iterable[GroupRebalance]:
    return reversed(rebalances[-_REBALANCES_MAX:])


def rebalance_text(rebalance: GroupRebalance) -> str:
    """Return when and why a rebalance began, how long it took, and what it moved."""
    duration = rebalance.duration_seconds
    lasted = "not over yet" if duration is None else f"took {age_text(duration)}"
    moved = count_text(rebalance.moves, "partition")
    return f"{moment_text(rebalance.began_at)}: {rebalance.reason}; {lasted}, moved {moved}."


def retention_sentences(group: Group) -> Iterator[str]:
    """Yield what retention has deleted unread, waits for, or deletes soon; nothing if the group is safe."""
    lost, held, near = (_at_risk(group, risk) for risk in ("lost", "held", "near"))
    if lost:
        count = count_text(sum(each.lost for each in lost), "message")
        yield f"Deleted before the group had read them: {count} of {_names(lost)}."
    if held:
        yield f"Retention is held back in {_names(held)}, since the group has not read what is old enough to go."
    if near:
        yield f"Retention deletes unread messages of {_names(near)} in {age_text(_least(near))}."


def retention_line(group: Group) -> str:
    """Return the most urgent of these in a few words, or when retention reaches the group; empty if that is unknown."""
    lost, held, near = (_at_risk(group, risk) for risk in ("lost", "held", "near"))
    if lost:
        return f"{count_text(sum(each.lost for each in lost), 'message')} of {_names(lost)} deleted unread"
    if held:
        return f"held back in {_names(held)}"
    if near:
        return f"deletes unread messages of {_names(near)} in {age_text(_least(near))}"
    known = [each for each in group.offsets if each.retention_left_seconds is not None]
    return f"{age_text(_least(known))} until unread messages are deleted" if known else ""


def _at_risk(group: Group, risk: str) -> list[GroupOffset]:
    return [each for each in group.offsets if each.retention_risk == risk]


def _names(offsets: Sequence[GroupOffset]) -> str:
    return partitions_text(GroupPartition(each.topic, each.partition) for each in offsets)


def _least(offsets: Sequence[GroupOffset]) -> float:
    return min(each.retention_left_seconds or 0.0 for each in offsets)


def partitions_text(partitions: Iterable[GroupPartition]) -> str:
    """Return the names of the first eight partitions, and how many more there are."""
    names = [str(each) for each in sorted(partitions)]
    if not names:
        return "nothing"
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def member_name(member: GroupMember) -> str:
    """Return the client id of a member, or else its member id."""
    return member.client_id or member.member_id
