"""Sets of offsets as spans: `[start, end)`, in order, none of them empty, none touching the next. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class OffsetSpan(NamedTuple):
    """Offsets from `start` on and before `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are."""
        return self.end - self.start


Spans = tuple[OffsetSpan, ...]


def union(spans: Iterable[OffsetSpan]) -> Spans:
    """Return the union of spans."""
    found: list[OffsetSpan] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if found and start <= found[-1].end:
            found[-1] = OffsetSpan(found[-1].start, max(found[-1].end, end))
        else:
            found.append(OffsetSpan(start, end))
    return tuple(found)


def within(spans: Spans, whole: OffsetSpan) -> Spans:
    """Return the offsets of spans that lie in `whole`."""
    cut = (OffsetSpan(max(start, whole.start), min(end, whole.end)) for start, end in spans)
    return tuple(each for each in cut if each.size > 0)


def missing(spans: Spans, whole: OffsetSpan) -> Spans:
    """Return the offsets of `whole` that are in none of the spans."""
    found: list[OffsetSpan] = []
    start = whole.start
    for each in within(spans, whole):
        if start < each.start:
            found.append(OffsetSpan(start, each.start))
        start = each.end
    if start < whole.end:
        found.append(OffsetSpan(start, whole.end))
    return tuple(found)


def overlap(left: Spans, right: Spans) -> Spans:
    """Return the offsets in both."""
    return union(each for whole in right for each in within(left, whole))
