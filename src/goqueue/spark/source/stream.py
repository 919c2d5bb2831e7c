"""The stream reader: tells Spark the offsets to read and the slices of each batch.

Spark keeps one reader in a process beside the driver while the query runs, and others in tasks, which only `read`.
Positions are stored in Spark's checkpoint. `stream_plan` decides; this module asks the broker.

`Progress` commits the position of a stream as offsets of a group, over HTTP, for its lag and for retention. This is
best effort: a query continues from its checkpoint, so a failed commit is logged once and retried later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from typing_extensions import override

from goqueue.client import Client, PartitionOffset, Patience, groups
from goqueue.client.kafka import KafkaData
from goqueue.errors import GoQueueError
from goqueue.seams.clock import Clock, SystemClock
from goqueue.spark.archive.lookup import Archives
from goqueue.spark.broker import http_address
from goqueue.spark.source.lookup import Reached, Seen, at_end, begins_at, connect, look, require_all, resolve
from goqueue.spark.source.losses import Loss, settle
from goqueue.spark.source.option_values import Assigned
from goqueue.spark.source.options import ReadOptions
from goqueue.spark.source.positions import StreamPositions, read_positions
from goqueue.spark.source.reader import read_task, tasks_of
from goqueue.spark.source.stream_plan import ends_of, known, next_step, positions_at, readable

_REPORT_TIMEOUT_S = 2.0
_REPORT_PAUSE_S = 30.0

_log = logging.getLogger("goqueue.spark")


class GoQueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over topics; `read` runs in tasks, all other methods beside the driver."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._planner: _Planner | None = None

    @override
    def initialOffset(self) -> dict[str, Any]:
        return self._driver_side().initial().to_json()

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.offsets_per_trigger_min is not None:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._driver_side().aim_at_what_is_there()

    @override
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._driver_side().latest(read_positions(start), limit).to_json()

    @override
    def reportLatestOffset(self) -> dict[str, Any] | None:
        ends = self._driver_side().last_seen_ends
        return None if ends is None else ends.to_json()

    @override
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._driver_side().tasks(read_positions(start), read_positions(end))

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._columns, partition)

    @override
    def commit(self, end: dict[str, Any]) -> None:
        self._driver_side().report(read_positions(end))

    @override
    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def _driver_side(self) -> _Planner:
        # # Created on demand: Spark pickles readers and sends them to tasks.
        if self._planner is None:
            self._planner = _Planner(self._options)
        return self._planner


class _Planner:
    """The state of a running query: its connection, its start, and its end, if it has one."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._data: KafkaData = connect(options)
        self._archives = Archives(options)
        self._clock = SystemClock()
        self._initial: StreamPositions | None = None
        self._target: StreamPositions | None = None
        self._end: StreamPositions | None = None
        self._is_beginning_logged = False
        self._last_advance = self._clock.monotonic()
        self._told: set[str] = set()
        self._last_seen: Seen | None = None
        self._progress: Progress | None = None
        if options.group is not None:
            self._progress = Progress(options.group, options.http_url, self._data.describe_broker)

    @property
    def last_seen_ends(self) -> StreamPositions | None:
        """The end of the query, or else the ends of the logs at the last look."""
        if self._end is not None:
            return self._end
        return None if self._last_seen is None else ends_of(self._last_seen)

    def initial(self) -> StreamPositions:
        """Return the start of the query; the same for repeated calls within one process."""
        if self._initial is None:
            seen = self._look(begins_at(self._options.start))
            require_all(seen, self._options)
            offsets = resolve(self._data, self._options, self._options.start, seen, name="startingOffsets")
            end = self._find_end(seen) if self._options.has_end else None
            self._initial = replace(positions_at(offsets, seen), end=end)
            self._end = end
        return self._initial

    def aim_at_what_is_there(self) -> None:
        """End the query at the current ends of the logs."""
        self._target = ends_of(self._look(at_end))

    def latest(self, start: StreamPositions, limit: ReadLimit) -> StreamPositions:
        """Return the end of the next batch; `start` itself for no batch."""
        # # The sink has committed everything before the start.
        self.report(start)
        if start == self._initial and not self._is_beginning_logged:
            # # Spark stores only the end of batch 0, and after a failure asks for its start again, which may have
            # changed. So batch 0 has no rows, and its end is the start of the query.
            self._is_beginning_logged = True
            return start
        position = self._with_end(start)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        step = next_step(
            position,
            self._look(start.reached),
            limit=rows_max,
            target=self._target,
            is_assigned=isinstance(self._options.subscription, Assigned),
        )
        self._settle(step.losses, self._told)
        # # All records before an end exist, so there is nothing to wait for.
        if position.end is None and self._is_too_little(step.backlog, limit):
            return start
        self._last_advance = self._clock.monotonic()
        return step.end

    def tasks(self, start: StreamPositions, end: StreamPositions) -> list[InputPartition]:
        """Return the slices between two positions, which may come from a checkpoint."""
        # # A process that plans a batch before `latest` repeats a logged batch: batch 0, or a later one.
        self._is_beginning_logged = True
        found = readable(start, end, self._look(start.reached))
        # # Losses that `latest` has logged are not logged again, and stay known.
        self._settle(found.losses, set(self._told))
        return tasks_of(self._options, found.ranges)

    def report(self, positions: StreamPositions) -> None:
        """Commit the position to the group, if the query has one, without topics that no longer exist."""
        if self._progress is not None:
            self._progress.report(positions if self._last_seen is None else known(positions, self._last_seen))

    def close(self) -> None:
        """Close the connection."""
        self._data.close()

    def _with_end(self, start: StreamPositions) -> StreamPositions:
        """Return a position with the end of the query: the stored end, if the option is still set."""
        if not self._options.has_end:
            self._end = None
        else:
            self._end = start.end or self._find_end(self._look())
        return replace(start, end=self._end)

    def _find_end(self, seen: Seen) -> StreamPositions:
        options = self._options
        return positions_at(resolve(self._data, options, options.end, seen, name="endingOffsets", is_end=True), seen)

    def _look(self, reached: Reached | None = None) -> Seen:
        self._last_seen = look(self._data, self._options, self._archives, reached)
        return self._last_seen

    def _is_too_little(self, backlog: int, limit: ReadLimit) -> bool:
        if self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        least = limit.min_rows if isinstance(limit, ReadMinRows) else self._options.offsets_per_trigger_min
        waited_ms = (self._clock.monotonic() - self._last_advance) * 1000
        return least is not None and backlog < least and waited_ms < self._options.trigger_delay_ms_max

    def _settle(self, losses: Sequence[Loss], told: set[str]) -> None:
        settle(losses, is_failure=self._options.fails_on_data_loss, told=told)


class Progress:
    """Commits offsets of one group; `settings` returns the broker's settings, which name its HTTP address."""

    def __init__(
        self,
        group: str,
        http_url: str | None,
        settings: Callable[[], Mapping[str, str | None]],
        clock: Clock | None = None,
    ) -> None:
        self._group = group
        self._http_url = http_url
        self._found_url: str | None = None
        self._settings = settings
        self._clock = clock or SystemClock()
        self._reported: StreamPositions | None = None
        self._not_before = 0.0
        self._is_failure_told = False

    def report(self, positions: StreamPositions) -> None:
        """Commit the offsets, unless they are committed already, or the last commit has just failed."""
        if positions == self._reported or self._clock.monotonic() < self._not_before:
            return
        try:
            self._commit(positions)
        except GoQueueError as error:
            self._not_before = self._clock.monotonic() + _REPORT_PAUSE_S
            # # A broker that has moved has another address.
            self._found_url = None
            if not self._is_failure_told:
                _log.warning(
                    "the progress of group %r cannot be committed, the query continues: %s", self._group, error
                )
            self._is_failure_told = True
        else:
            self._reported = positions
            self._is_failure_told = False

    def _commit(self, positions: StreamPositions) -> None:
        offsets = [PartitionOffset(place.topic, place.partition, offset) for place, offset in positions.items()]
        if not offsets:
            return
        if self._http_url is None and self._found_url is None:
            self._found_url = http_address(self._settings())
        url = self._http_url or self._found_url or ""
        with Client(url, timeout_s=_REPORT_TIMEOUT_S, patience=Patience(attempts=1)) as client:
            for refusal in client.send(groups.commit(self._group, offsets)):
                if refusal is not None:
                    raise refusal
