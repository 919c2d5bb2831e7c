"""How offsets become work: ranges into slices, one Spark task each, and a limit shared among partitions.

Pure. The same ranges always give the same slices, so a batch that is run again reads the same rows.
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
    """Where the rows are if the log has them not any more."""

    @property
    def size(self) -> int:
        """How many offsets there are; records may be fewer."""
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
    """Raise the counts, each time that of the range with the longest slices."""
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
    """Share a limit among partitions in proportion to what each has waiting; return how many offsets each may go on.

    Whoever has something waiting gets one in any case, so that a large backlog starves nobody: only if there are more
    such partitions than the limit allows, the sum is larger than the limit. Otherwise nothing of it is left unused.
    """
    waiting = {place: size for place, size in sorted(backlog.items()) if size > 0}
    others = sum(waiting.values()) - len(waiting)
    rest = max(0, limit - len(waiting))
    if others <= rest:
        return waiting
    shares = {place: 1 + (size - 1) * rest // others for place, size in waiting.items()}
    # What rounding down has left is less than one for each: those who lost most by it come first.
    losers = sorted(waiting, key=lambda place: -((waiting[place] - 1) * rest % others))
    for place in losers[: max(0, limit - sum(shares.values()))]:
        shares[place] += 1
    return shares
