"""The archive job: copies new messages of a topic to Parquet, merges small files, deletes old ones.

    prepare     compares the log with the archive; raises all foreseeable errors before Spark starts
    round       tasks copy slices into files, then one commit names them all; again until everything is copied
    merge       tasks write small files into larger ones, then one commit replaces them
    sweep       files are deleted that were replaced a while ago, and what failed jobs have left

A job that dies leaves files that no commit names. The next run starts at the end of the last commit, so every row is in
the archive once. The format of files and commits is in `archive/manifest`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client import Client, topics
from goqueue.client.kafka import KafkaData, NamedOffset, TopicPartition
from goqueue.errors import Conflict, Invalid, NotFound
from goqueue.seams.clock import Clock, SystemClock
from goqueue.spark.archive.commits import ArchiveChange, load, write
from goqueue.spark.archive.lookup import PATH_SETTING
from goqueue.spark.archive.manifest import ArchivedFile, ArchiveState, TopicArchive
from goqueue.spark.archive.paths import normal_path
from goqueue.spark.archive.spans import OffsetSpan, Spans, union
from goqueue.spark.archive.store import ArchiveStore, ArchiveUnreachable
from goqueue.spark.archive.write import TARGET_BYTES
from goqueue.spark.broker import http_address
from goqueue.spark.jobs.archive.plan import (
    MERGE_FILES_MIN,
    CopyPlan,
    LogBounds,
    gap_error,
    next_round,
    plan_copy,
    plan_deletions,
    plan_merges,
    rest_of,
    split_removed,
)
from goqueue.spark.jobs.archive.tasks import RecordsLost, Work, copy_slices, merge_files
from goqueue.spark.source.option_values import ArchiveUse
from goqueue.spark.source.options import ARCHIVE, BOOTSTRAP, ReadKind, ReadOptions, parse_options
from goqueue.spark.source.plan import Range, slices_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEEP_MS: Final = 3_600_000
KEEP_MS_MAX: Final = 30 * 86_400_000


class ArchivedElsewhere(Conflict):
    """The topic's setting names an archive at another path."""

    code = "archived_elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequest:
    """The options of an archive job."""

    topic: str
    path: str
    bootstrap: str
    http_url: str | None = None
    allows_gaps: bool = False
    is_registered: bool = True
    """Whether to store the archive's path in the topic's settings."""
    keep_ms: int = KEEP_MS
    """How long to keep replaced files, for reads under way."""
    target_bytes: int = TARGET_BYTES
    slice_offsets_max: int = 1_000_000
    round_offsets_max: int = 20_000_000
    merge_files_min: int = MERGE_FILES_MIN


@dataclass(slots=True)
class ArchiveOutcome:
    """The result of a job."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    commits: int = 0
    merged_files: int = 0
    deleted_files: int = 0
    ranges: dict[int, OffsetSpan] = field(default_factory=dict)
    gaps: dict[int, Spans] = field(default_factory=dict)
    is_registered_now: bool = False


@dataclass(frozen=True, slots=True)
class Copied:
    """The progress of a job after a commit."""

    offsets_done: int
    offsets: int
    rows: int
    bytes: int


class ArchiveJob:
    """One run for one topic."""

    def __init__(
        self, request: ArchiveRequest, *, clock: Clock | None = None, store: ArchiveStore | None = None
    ) -> None:
        """Compare the log with the archive, and raise all foreseeable errors."""
        if not 0 <= request.keep_ms <= KEEP_MS_MAX:
            raise Invalid("replaced files are kept for at most 30 days")
        self._request = request
        self._clock = clock or SystemClock()
        self.path = normal_path(request.path)
        self._store = store or ArchiveStore(self.path)
        self._store.require_directory()
        self._outcome = ArchiveOutcome()
        with KafkaData(request.bootstrap) as data:
            (topic,) = data.topics([request.topic])
            if topic.error is not None:
                raise topic.error
            self._bounds = _bounds(data, request.topic, len(topic.partitions))
            named = data.topic_setting([request.topic], PATH_SETTING).get(request.topic)
            is_known = named is not None and normal_path(named) == self.path
            self._http_url = None if is_known or not request.is_registered else self._where_to_register(data, named)
        self._id = topic.id
        self._state = load(self._store)
        if is_known and self._archived is None:
            raise ArchiveUnreachable(
                f"topic {request.topic!r} names an archive at {self.path}, which does not exist",
                hint="mount it, or restore it from a copy; to start over, clear the setting first, with `goqueue topic "
                f"alter {request.topic} --unset {PATH_SETTING}`",
            )
        self.plan: CopyPlan = plan_copy(
            request.topic, LogBounds(topic.id, self._bounds), self._archived, allows_gaps=request.allows_gaps
        )

    @property
    def needs_spark(self) -> bool:
        """Whether there are messages to copy or files to merge."""
        return bool(self.plan.spans or self._merges())

    def run(self, session: SparkSession | None, tell: Callable[[Copied], None] = lambda _: None) -> ArchiveOutcome:
        """Run the job; the session may be None if Spark is not needed."""
        if session is not None:
            self._copy(session, tell)
        elif self.plan.gaps or self.plan.begins:
            self._commit(self._first_change())
        self._register()
        if session is not None:
            self._merge(session)
        self._sweep()
        return self._outcome

    @property
    def _archived(self) -> TopicArchive | None:
        return self._state.topics.get(self._request.topic)

    def _copy(self, session: SparkSession, tell: Callable[[Copied], None]) -> None:
        request, outcome = self._request, self._outcome
        left, change, done = dict(self.plan.spans), self._first_change(), 0
        while left or change.gaps or change.begins:
            # # Retention continues during the job.
            left, change = self._without_removed(left, change)
            spans = next_round(request.topic, left, request.round_offsets_max)
            ranges = [Range(request.topic, self._id, number, *span) for number, span in spans.items()]
            slices = slices_of(ranges, slice_records_max=request.slice_offsets_max)
            try:
                files = _flat(copy_slices(session, self._work(), slices, self._read_options()))
            except RecordsLost:
                if not split_removed(spans, self._log_starts()).removed:
                    raise
                continue
            self._commit(msgspec.structs.replace(change, covered=_single(spans), added=files))
            done += sum(span.size for span in spans.values())
            outcome.rows += sum(file.rows for file in files)
            outcome.files += len(files)
            outcome.bytes += sum(file.bytes for file in files)
            for number, span in spans.items():
                outcome.ranges[number] = OffsetSpan(outcome.ranges.get(number, span).start, span.end)
            tell(Copied(done, self.plan.offsets, outcome.rows, outcome.bytes))
            left, change = rest_of(left, spans), ArchiveChange(topic=request.topic, topic_id=self._id)

    def _first_change(self) -> ArchiveChange:
        """Return the gaps and starts that the first commit of a run notes."""
        plan = self.plan
        return ArchiveChange(topic=self._request.topic, topic_id=self._id, begins=plan.begins, gaps=_single(plan.gaps))

    def _without_removed(
        self, left: Mapping[int, OffsetSpan], change: ArchiveChange
    ) -> tuple[dict[int, OffsetSpan], ArchiveChange]:
        """Drop removed offsets from the rest to copy, and note them in the next change."""
        kept, removed = split_removed(left, self._log_starts())
        if not removed:
            return kept, change
        if change.begins:
            # # Nothing is archived yet, so the archive starts at the current start of the log.
            begins = {**change.begins, **{number: span.end for number, span in removed.items()}}
            return kept, msgspec.structs.replace(change, begins=begins)
        if not self._request.allows_gaps:
            raise gap_error(self._request.topic, removed)
        gaps = {number: union((*change.gaps.get(number, ()), span)) for number, span in removed.items()}
        return kept, msgspec.structs.replace(change, gaps={**change.gaps, **gaps})

    def _log_starts(self) -> dict[int, int]:
        """Return the current starts of the logs."""
        with KafkaData(self._request.bootstrap) as data:
            starts = data.offsets(
                [TopicPartition(self._request.topic, number) for number in self._bounds], NamedOffset.EARLIEST
            )
        return {place.partition: found.offset or 0 for place, found in starts.items()}

    def _merge(self, session: SparkSession) -> None:
        groups = self._merges()
        if not groups:
            return
        merged = _flat(merge_files(session, self._work(), groups))
        removed = [file.path for group in groups for file in group]
        self._commit(ArchiveChange(topic=self._request.topic, topic_id=self._id, added=merged, removed=removed))
        self._outcome.merged_files = len(removed)

    def _sweep(self) -> None:
        if self._archived is None:
            return
        paths = [file.path for file in self._store.files_below(f"topic={self._request.topic}")]
        doomed = plan_deletions(paths, self._archived, self._clock.now_ms(), self._request.keep_ms)
        for path in doomed:
            self._store.delete(path)
        self._outcome.deleted_files = len(doomed)

    def _merges(self) -> list[tuple[ArchivedFile, ...]]:
        files = self._archived.files if self._archived else ()
        return plan_merges(files, self._request.target_bytes, self._request.merge_files_min)

    def _commit(self, change: ArchiveChange) -> ArchiveState:
        self._state = write(self._store, self._state, change, self._clock)
        self._outcome.commits += 1
        for number, spans in change.gaps.items():
            self._outcome.gaps[number] = union((*self._outcome.gaps.get(number, ()), *spans))
        return self._state

    def _work(self) -> Work:
        return Work(self.path, self._request.topic, self._state.number + 1, self._request.target_bytes)

    def _read_options(self) -> ReadOptions:
        written = {
            BOOTSTRAP: self._request.bootstrap,
            "topic": self._request.topic,
            "includeHeaders": "true",
            # # The job archives only records of the log.
            ARCHIVE: ArchiveUse.NEVER.value,
        }
        return parse_options(written, ReadKind.BATCH)

    def _where_to_register(self, data: KafkaData, named: str | None) -> str:
        """Return the HTTP address for the registration; refuses a topic with another archive."""
        request = self._request
        if named is not None:
            raise ArchivedElsewhere(
                f"topic {request.topic!r} names an archive at {named}, not at {self.path}",
                hint="archive to that path; to start a new archive here with the current log, clear the setting "
                f"first: `goqueue topic alter {request.topic} --unset {PATH_SETTING}`; --no-register writes a copy "
                "that reads do not use",
            )
        if request.http_url is not None:
            return request.http_url
        with suppress(NotFound):
            return http_address(data.describe_broker())
        raise Invalid(
            "the broker does not report its HTTP address, so the topic's setting cannot be written",
            hint="set the address with --server, or skip this with --no-register",
        )

    def _register(self) -> None:
        """Store the archive's path in the topic's settings, once there is an archive."""
        if self._http_url is None or self._archived is None:
            return
        with Client(self._http_url) as client:
            client.send(topics.alter(self._request.topic, config={PATH_SETTING: self.path}))
        self._http_url = None
        self._outcome.is_registered_now = True


def _bounds(data: KafkaData, topic: str, partitions: int) -> dict[int, OffsetSpan]:
    places = [TopicPartition(topic, number) for number in range(partitions)]
    starts, ends = data.offsets(places, NamedOffset.EARLIEST), data.offsets(places, NamedOffset.LATEST)
    return {place.partition: OffsetSpan(starts[place].offset or 0, ends[place].offset or 0) for place in places}


def _single(spans: Mapping[int, OffsetSpan]) -> dict[int, tuple[OffsetSpan, ...]]:
    return {number: (span,) for number, span in spans.items()}


def _flat(files: list[tuple[ArchivedFile, ...]]) -> list[ArchivedFile]:
    return [file for each in files for file in each]
