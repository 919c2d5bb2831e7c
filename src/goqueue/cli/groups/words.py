"""Members, partitions and times of groups, in words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.client import GroupMember, GroupPartition

_NAMED_MAX = 8


def age_text(seconds: float) -> str:
    """Return a duration in words: `120 ms`, `3.5 s`, `12 min`, `5 h`, `3 days`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86_400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} days"


def moment_text(moment: str) -> str:
    """Return a time by the clock on the wall here, to the second."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"


def partitions_text(partitions: Iterable[GroupPartition]) -> str:
    """Return the names of partitions; of many, the first ones and how many more there are."""
    names = [str(each) for each in sorted(partitions)]
    if not names:
        return "nothing"
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def member_name(member: GroupMember) -> str:
    """Return how a member is called: as its client calls itself, or by its id."""
    return member.client_id or member.member_id
