"""Which records stay beyond retention because somebody has not read them yet: pure choice, no I/O.

The choice is made for all partitions of a topic together, since they share one budget of bytes. What everybody has
read leaves as if nothing was held. The rest is held as long as it fits into the budget; if it does not, segments leave
unread, those with the oldest records first and in each partition in their order, until the rest fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from goqueue.model.topic_settings import UNLIMITED


class DueSegment(NamedTuple):
    """A segment that retention would delete now."""

    next_offset: int
    size_bytes: int
    max_timestamp: int


class DuePartition(NamedTuple):
    """What retention would delete of a partition, oldest first, and the first offset that somebody has not read.

    What lies behind `first_unread` is not looked at: it stays for now, whatever retention says.
    """

    segments: Sequence[DueSegment]
    first_unread: int


class Verdict(NamedTuple):
    """Records of a partition before `expires_before` may leave.

    `held_bytes` is how much stays beyond retention, `unread_bytes` how much of what may leave has not been read.
    """

    expires_before: int
    held_bytes: int
    unread_bytes: int


def judge(partitions: Sequence[DuePartition], budget_bytes: int) -> list[Verdict]:
    """Return what may leave of each partition of a topic, so that all that is held fits into a budget."""
    unread = [
        [segment for segment in partition.segments if segment.next_offset > partition.first_unread]
        for partition in partitions
    ]
    given_up = [0] * len(partitions)
    if budget_bytes != UNLIMITED:
        _give_up(unread, given_up, budget_bytes)
    verdicts = []
    for partition, segments, count in zip(partitions, unread, given_up, strict=True):
        gone, held = segments[:count], segments[count:]
        expires_before = max([partition.first_unread, *(segment.next_offset for segment in gone)])
        verdicts.append(Verdict(expires_before, _size(held), _size(gone)))
    return verdicts


def _give_up(unread: Sequence[Sequence[DueSegment]], given_up: list[int], budget_bytes: int) -> None:
    """Count up in `given_up` how many segments of each partition leave unread."""
    held_bytes = sum(map(_size, unread))
    oldest = [(segments[0].max_timestamp, number) for number, segments in enumerate(unread) if segments]
    heapify(oldest)
    while held_bytes > budget_bytes:
        _, number = oldest[0]
        held_bytes -= unread[number][given_up[number]].size_bytes
        given_up[number] += 1
        if given_up[number] < len(unread[number]):
            heapreplace(oldest, (unread[number][given_up[number]].max_timestamp, number))
        else:
            heappop(oldest)


def _size(segments: Sequence[DueSegment]) -> int:
    return sum(segment.size_bytes for segment in segments)
