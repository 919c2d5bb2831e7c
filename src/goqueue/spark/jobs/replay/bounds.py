"""Between which offsets a replay reads: from what people write to options of the data source. Pure.

A time is left to the source, which looks for the first message of that time or later in each partition. An offset is
meant for each partition, and one that a partition does not have is the nearest that it has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, assert_never

from goqueue.model.start_position import AtOffset, AtTime, FromEnd, Start


class Held(NamedTuple):
    """The first offset that a partition has, and the one behind its last."""

    start: int
    end: int


def check_bounds(start: Start, end: Start) -> str:
    """Return what is wrong with where a replay begins and ends; nothing if it can be."""
    if _is_end(start):
        return "--from end: behind the end there is nothing to replay"
    if _is_beginning(end):
        return "--to beginning: before the beginning there is nothing to replay"
    is_backwards = type(start) is type(end) and start[0] >= end[0]
    if isinstance(start, FromEnd) and isinstance(end, FromEnd):
        is_backwards = start.distance <= end.distance
    return "--to is not behind --from: there is nothing to replay in between" if is_backwards else ""


def bounds_of(topic: str, start: Start, end: Start, held: Mapping[int, Held]) -> dict[str, str]:
    """Return the options of the source that say where to begin and, exclusively, where to end."""
    first = "earliest" if _is_beginning(start) else ""
    last = "latest" if _is_end(end) else ""
    return {
        **_option("starting", topic, start, held, first),
        **_option("ending", topic, end, held, last),
    }


# Places are tuples, of which those with the same number are equal, whatever they mean.
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
