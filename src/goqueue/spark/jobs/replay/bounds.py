"""The offset range of a replay, as options of the data source. Pure.

The data source resolves times to the first message at or after them in each partition. An offset applies to each
partition; outside of a partition, it becomes the nearest offset inside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, assert_never

from goqueue.model.start_position import AtOffset, AtTime, FromEnd, Start


class Held(NamedTuple):
    """The offsets of a partition, half-open."""

    start: int
    end: int


def check_bounds(start: Start, end: Start) -> str:
    """Return the mistake in a range; empty if it is valid."""
    if _is_end(start):
        return "--from end: there is nothing to replay after the end"
    if _is_beginning(end):
        return "--to beginning: there is nothing to replay before the beginning"
    is_backwards = type(start) is type(end) and start[0] >= end[0]
    if isinstance(start, FromEnd) and isinstance(end, FromEnd):
        is_backwards = start.distance <= end.distance
    return "--to is not after --from: there is nothing to replay" if is_backwards else ""


def bounds_of(topic: str, start: Start, end: Start, held: Mapping[int, Held]) -> dict[str, str]:
    """Return the start and end options of the data source; the end is exclusive."""
    first = "earliest" if _is_beginning(start) else ""
    last = "latest" if _is_end(end) else ""
    return {
        **_option("starting", topic, start, held, first),
        **_option("ending", topic, end, held, last),
    }


# Start positions are tuples, and equal if their numbers are equal, so their types are compared too.
def _is_beginning(place: Start) -> bool:
    return isinstance(place, AtOffset) and place.offset == 0


def _is_end(place: Start) -> bool:
    return isinstance(place, FromEnd) and place.distance == 0


def _option(prefix: str, topic: str, place: Start, held: Mapping[int, Held], name: str) -> dict[str, str]:
    if isinstance(place, AtTime):
        return {f"{prefix}Timestamp": str(place.timestamp_ms)}
    offsets = {str(number): _within(place, each) for number, each in sorted(held.items())}
    return {f"{prefix}Offsets": name or json.dumps({topic: offsets})}


def _within(place: AtOffset | FromEnd, held: Held) -> int:
    match place:
        case AtOffset(offset):
            return min(max(offset, held.start), held.end)
        case FromEnd(distance):
            return max(held.end - distance, held.start)
        case _:
            assert_never(place)
