"""How a group stands with retention, in words: what it has lost, what is held back for it, what it will lose soon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goqueue.cli.groups.words import age_text, partitions_text
from goqueue.cli.terminal.tables import count_text
from goqueue.client import Group, GroupOffset, GroupPartition


def retention_sentences(group: Group) -> Iterator[str]:
    """Yield what somebody should look at; nothing if the group is safe from retention."""
    lost, held, near = (_at_risk(group, risk) for risk in ("lost", "held", "near"))
    if lost:
        count = count_text(sum(each.lost for each in lost), "message")
        yield f"Deleted before the group had read them: {count} of {_names(lost)}."
    if held:
        yield f"Retention is held back in {_names(held)}, since the group has not read what is old enough to go."
    if near:
        yield f"Retention deletes unread messages of {_names(near)} in {age_text(_least(near))}."


def retention_line(group: Group) -> str:
    """Return the worst of it in a few words, or when retention will reach the group; empty if nothing is known."""
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
