"""Plans the work of a read: ranges cut into slices, one Spark task each, and a limit shared among partitions.

Pure. The same ranges always give the same slices, so a repeated batch reads the same rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from goqueue.client.kafka import TopicPartition
from goqueue.errors import Invalid
from goqueue.spark.archive.lookup import ArchivedPiece
from goqueue.spark.source.option_values import SLICES_MAX


class Range(NamedTuple):
    """Offsets of one partition, from `start` on and before `end`."""

    topic: str
    topic_id: UUID
    partition: int
    start: int
    end: int
    archived: ArchivedPiece | None = None
    """The archived piece, if the log no longer has the rows."""

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start


def slices_of(
    ranges: Sequence[Range], *, slices_min: int | None = None, slice_records_max: int | None = None
) -> list[Range]:
    """Cut ranges into slices in the order of topic, partition and offset.

    No slice is longer than `slice_records_max`, and there are at least `slices_min` if there are so many offsets: the
    longest slices are cut first, each range into equal ones. Empty ranges give none. Invalid if there would be far too
    many.
    """
    wanted = sorted(each for each in ranges if each.size > 0)
    counts = [-(-each.size // slice_records_max) if slice_records_max else 1 for each in wanted]
    if sum(counts) > max(SLICES_MAX, len(wanted)):
        raise Invalid(
            f"maxRecordsPerPartition={slice_records_max} makes {sum(counts)} tasks, more than {SLICES_MAX}",
            hint="raise it, or let a stream read less at once with maxOffsetsPerTrigger",
        )
    _cut_longest(wanted, counts, slices_min or 0)
    return [piece for each, count in zip(wanted, counts, strict=True) for piece in _equal_pieces(each, count)]


def _cut_longest(ranges: Sequence[Range], counts: list[int], slices_min: int) -> None:
    """Add slices one by one to the range with the longest slices."""
    missing = slices_min - sum(counts)
    longest = [(-each.size / counts[index], index) for index, each in enumerate(ranges) if each.size > counts[index]]
    heapq.heapify(longest)
    while missing > 0 and longest:
        _, index = heapq.heappop(longest)
        counts[index] += 1
        missing -= 1
        if ranges[index].size > counts[index]:
            heapq.heappush(longest, (-ranges[index].size / counts[index], index))


def _equal_pieces(whole: Range, count: int) -> list[Range]:
    cuts = [whole.start + whole.size * number // count for number in range(count + 1)]
    if whole.archived is None:
        return [whole._replace(start=start, end=end) for start, end in pairwise(cuts)]
    return [
        whole._replace(start=start, end=end, archived=whole.archived.cut(start, end)) for start, end in pairwise(cuts)
    ]


def share(backlog: Mapping[TopicPartition, int], limit: int) -> dict[TopicPartition, int]:
    """Share a limit among partitions in proportion to their backlogs; return the offsets for each.

    Each partition with a backlog gets at least one offset, so that a large backlog starves no other partition. Only if
    more partitions have a backlog than the limit allows does the sum exceed the limit. Otherwise the whole limit is
    used.
    """
    waiting = {place: size for place, size in sorted(backlog.items()) if size > 0}
    others = sum(waiting.values()) - len(waiting)
    rest = max(0, limit - len(waiting))
    if others <= rest:
        return waiting
    shares = {place: 1 + (size - 1) * rest // others for place, size in waiting.items()}
    # # Rounding down leaves less than one offset per partition: the largest remainders get one more.
    losers = sorted(waiting, key=lambda place: -((waiting[place] - 1) * rest % others))
    for place in losers[: max(0, limit - sum(shares.values()))]:
        shares[place] += 1
    return shares
