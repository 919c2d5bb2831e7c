"""Plans an archive job: new offsets to copy, files to merge, files to delete. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.client.kafka import TopicPartition
from goqueue.errors import Conflict
from goqueue.spark.archive.manifest import ArchivedFile, TopicArchive
from goqueue.spark.archive.spans import OffsetSpan
from goqueue.spark.archive.write import number_of
from goqueue.spark.source.plan import share

MERGE_FILES_MIN: Final = 4
_SMALL: Final = 4
"""A file is small if it has at most this fraction (1/N) of the target size."""


class ArchiveGap(Conflict):
    """Records were removed from the log before they were archived."""

    code = "archive_gap"


class OtherTopic(Conflict):
    """The archive holds another topic of that name, or another history of it."""

    code = "archive_of_other_topic"


class LogBounds(NamedTuple):
    """The start and the visible end of each partition's log."""

    id: UUID
    bounds: Mapping[int, OffsetSpan]


class CopyPlan(NamedTuple):
    """Offsets to copy, and offsets removed since the last run; for a first run also the starts of the logs."""

    spans: Mapping[int, OffsetSpan]
    gaps: Mapping[int, OffsetSpan]
    begins: Mapping[int, int] = {}

    @property
    def offsets(self) -> int:
        """The number of offsets to copy."""
        return sum(span.size for span in self.spans.values())


def plan_copy(name: str, log: LogBounds, archived: TopicArchive | None, *, allows_gaps: bool) -> CopyPlan:
    """Decide what to copy: each partition from where the archive ends to the end of the log."""
    if archived is not None and archived.id != log.id:
        raise OtherTopic(
            f"topic {name!r} was deleted and created again since it was archived: the archive holds the old topic",
            hint="archive the new topic to another path; the old archive can still be read",
        )
    spans: dict[int, OffsetSpan] = {}
    gaps: dict[int, OffsetSpan] = {}
    for partition, (start, end) in sorted(log.bounds.items()):
        # # Records removed before the first run are no gap; records removed since are one.
        reached = archived.end(partition) if archived else start
        if reached > end:
            raise OtherTopic(
                f"partition {partition} of topic {name!r} ends at offset {end}, and is archived up to {reached}: the "
                "broker has lost records",
                hint="archive the remaining records to another path",
            )
        if reached < start:
            gaps[partition] = OffsetSpan(reached, start)
        first = max(start, reached)
        if first < end:
            spans[partition] = OffsetSpan(first, end)
    if gaps and not allows_gaps:
        raise gap_error(name, gaps)
    begins = {} if archived else {partition: start for partition, (start, _) in sorted(log.bounds.items())}
    return CopyPlan(spans, gaps, begins)


def gap_error(name: str, gaps: Mapping[int, OffsetSpan]) -> ArchiveGap:
    """Return the error for removed records."""
    return ArchiveGap(
        f"records of topic {name!r} were removed before they were archived: {_told(gaps)}",
        hint="--allow-gaps notes them as missing and continues; run the job more often, or raise retention.ms",
    )


class Split(NamedTuple):
    """Offsets to copy, and offsets removed meanwhile."""

    kept: dict[int, OffsetSpan]
    removed: dict[int, OffsetSpan]


def split_removed(spans: Mapping[int, OffsetSpan], starts: Mapping[int, int]) -> Split:
    """Split spans at the current starts of the logs."""
    kept: dict[int, OffsetSpan] = {}
    removed: dict[int, OffsetSpan] = {}
    for partition, (start, end) in spans.items():
        first = min(max(start, starts.get(partition, start)), end)
        if start < first:
            removed[partition] = OffsetSpan(start, first)
        if first < end:
            kept[partition] = OffsetSpan(first, end)
    return Split(kept, removed)


def _told(gaps: Mapping[int, OffsetSpan]) -> str:
    return ", ".join(f"offsets {gap.start} to {gap.end - 1} of partition {number}" for number, gap in gaps.items())


def next_round(topic: str, spans: Mapping[int, OffsetSpan], offsets_max: int) -> dict[int, OffsetSpan]:
    """Return the spans of the next commit: a share of each partition within a limit."""
    waiting = {TopicPartition(topic, partition): span.size for partition, span in spans.items()}
    shares = share(waiting, offsets_max)
    return {
        place.partition: OffsetSpan(spans[place.partition].start, spans[place.partition].start + count)
        for place, count in shares.items()
    }


def rest_of(spans: Mapping[int, OffsetSpan], done: Mapping[int, OffsetSpan]) -> dict[int, OffsetSpan]:
    """Return the spans left after a round."""
    left = {
        number: OffsetSpan(done[number].end if number in done else start, end) for number, (start, end) in spans.items()
    }
    return {number: span for number, span in left.items() if span.size > 0}


def plan_merges(
    files: Sequence[ArchivedFile], target_bytes: int, files_min: int = MERGE_FILES_MIN
) -> list[tuple[ArchivedFile, ...]]:
    """Return groups of small files that follow on each other in one partition and date, each to become one file.

    A group needs `files_min` files, none larger than all others together: otherwise every run would rewrite a growing
    file.
    """

    def kind(file: ArchivedFile) -> tuple[int, str]:
        return file.partition, file.date or ""

    groups: list[tuple[ArchivedFile, ...]] = []
    for _, among in groupby(sorted(files, key=lambda file: (*kind(file), file.first)), kind):
        group: list[ArchivedFile] = []
        for file in among:
            is_small = file.bytes * _SMALL <= target_bytes
            if not is_small or sum(each.bytes for each in group) + file.bytes > target_bytes:
                groups.append(tuple(group))
                group = []
            if is_small:
                group.append(file)
        groups.append(tuple(group))
    return [group for group in groups if len(group) >= files_min and _is_balanced(group)]


def _is_balanced(group: Sequence[ArchivedFile]) -> bool:
    return 2 * max(file.bytes for file in group) <= sum(file.bytes for file in group)


def plan_deletions(paths: Iterable[str], archived: TopicArchive, now_ms: int, keep_ms: int) -> list[str]:
    """Return the files to delete: replaced ones after `keep_ms`, and files of failed jobs."""
    named = {file.path for file in archived.files}
    return [path for path in paths if path not in named and _is_over(path, archived, now_ms, keep_ms)]


def _is_over(path: str, archived: TopicArchive, now_ms: int, keep_ms: int) -> bool:
    removed_ms = archived.removed.get(path)
    if removed_ms is not None:
        return removed_ms + keep_ms <= now_ms
    # # No commit can name it any more: see `archive/manifest`.
    number = number_of(path)
    return number is not None and number <= archived.last_commit
