"""Reads slices in tasks, and plans the slices of batch reads.

A task opens its own connection, fetches whole batches and converts them to Arrow; no record becomes a Python object.
Readers are pickled, so they hold only options and column names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from typing_extensions import override

from goqueue.client.kafka import Isolation, KafkaData, TopicPartition
from goqueue.errors import OffsetOutOfRange, UnknownTopic
from goqueue.spark.archive.lookup import ArchivedPiece, Archives, TopicLog
from goqueue.spark.archive.rows import ArchivedPartition
from goqueue.spark.archive.spans import OffsetSpan
from goqueue.spark.archive.store import ArchiveStore
from goqueue.spark.records.batches import WantedOffsets
from goqueue.spark.records.decode import decode
from goqueue.spark.source.lookup import Bounds, begins_at, connect, look, require_all, resolve
from goqueue.spark.source.losses import Loss, deleted, recreated, settle
from goqueue.spark.source.options import ReadOptions
from goqueue.spark.source.plan import Range, slices_of
from goqueue.spark.source.stream_plan import within
from goqueue.spark.values.decode import ValueColumns


class GoQueueReader(DataSourceReader):
    """A batch read between two boundaries, which are resolved when Spark plans the query."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    @override
    def partitions(self) -> list[InputPartition]:
        return tasks_of(self._options, self._ranges())

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._columns, partition)

    def _ranges(self) -> list[Range]:
        options = self._options
        with connect(options) as data:
            seen = look(data, options, reached=begins_at(options.start))
            require_all(seen, options)
            starts = resolve(data, options, options.start, seen, name="startingOffsets")
            ends = resolve(data, options, options.end, seen, name="endingOffsets", is_end=True)
        ranges: list[Range] = []
        losses: list[Loss] = []
        for place, start in starts.items():
            topic = seen[place.topic]
            wanted = Range(place.topic, topic.id, place.partition, start, ends[place])
            if wanted.size > 0:
                available, lost = within(wanted, topic.partitions[place.partition])
                ranges += available
                losses += lost
        settle(losses, is_failure=options.fails_on_data_loss)
        return ranges


def tasks_of(options: ReadOptions, ranges: Sequence[Range]) -> list[InputPartition]:
    """Return the tasks for Spark, one per slice."""
    slices = slices_of(ranges, slices_min=options.slices_min, slice_records_max=options.slice_records_max)
    return [InputPartition(each) for each in slices]


def read_task(options: ReadOptions, columns: Sequence[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, with decoded values if requested."""
    values = ValueColumns(columns, options.decoding)
    for batch in _stored_rows(options, values.stored, partition):
        yield from values.add(batch)


def _stored_rows(options: ReadOptions, columns: Sequence[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; without anything to read, Spark creates a task without a slice."""
    if not isinstance(partition.value, Range):
        return
    wanted = partition.value
    if wanted.archived is not None:
        yield from _read_archived(wanted, wanted.archived, columns)
        return
    # # The broker may be restarting.
    with connect(options, is_patient=True) as data:
        yield from _read(data, options, columns, wanted)


def _read_archived(wanted: Range, piece: ArchivedPiece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    partition = ArchivedPartition(ArchiveStore(piece.path), wanted.topic, wanted.partition, piece.files)
    return partition.read(OffsetSpan(wanted.start, wanted.end), columns)


def _read(data: KafkaData, options: ReadOptions, columns: Sequence[str], wanted: Range) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice; losses are an error or a warning, by the options."""
    start = wanted.start
    while start < wanted.end:
        loss = _missing_topic(data, wanted)
        if loss is None:
            try:
                yield from _read_on(data, options, columns, wanted._replace(start=start))
                return
            except UnknownTopic:
                loss = _missing_topic(data, wanted) or deleted(wanted.topic)
            except OffsetOutOfRange as error:
                if error.start <= error.offset:
                    raise
                start = error.start
                gone = wanted._replace(start=error.offset, end=min(wanted.end, start))
                yield from _read_removed(data, options, columns, gone, start)
                continue
        settle([loss], is_failure=options.fails_on_data_loss)
        return


def _read_removed(
    data: KafkaData, options: ReadOptions, columns: Sequence[str], gone: Range, log_start: int
) -> Iterator[pa.RecordBatch]:
    """Yield archived rows of records that were removed since the read was planned; the rest is lost."""
    logs = {gone.topic: TopicLog(gone.topic_id, {gone.partition: log_start})}
    pieces = Archives(options).before(data, logs).get(gone.topic, {}).get(gone.partition, ())
    available, losses = within(gone, Bounds(log_start, log_start, pieces))
    settle(losses, is_failure=options.fails_on_data_loss)
    for each in available:
        if each.archived is not None:
            yield from _read_archived(each, each.archived, columns)


def _missing_topic(data: KafkaData, wanted: Range) -> Loss | None:
    (topic,) = data.topics([wanted.topic])
    if isinstance(topic.error, UnknownTopic):
        return deleted(wanted.topic)
    if topic.error is None and topic.id != wanted.topic_id:
        return recreated(wanted.topic)
    return None


def _read_on(data: KafkaData, options: ReadOptions, columns: Sequence[str], wanted: Range) -> Iterator[pa.RecordBatch]:
    place = TopicPartition(wanted.topic, wanted.partition)
    is_committed = options.isolation is Isolation.COMMITTED
    start = wanted.start
    # # The fetch checks the topic id: the topic may be replaced after any earlier check.
    fetches = data.read_range(
        place,
        start,
        wanted.end,
        topic_id=wanted.topic_id,
        isolation=options.isolation,
        bytes_max=options.fetch_bytes,
    )
    with closing(fetches):
        for fetched in fetches:
            yield from decode(
                fetched.records,
                WantedOffsets(place.topic, place.partition, start, wanted.end),
                columns,
                aborted=fetched.aborted if is_committed else (),
                opened_bytes_max=options.opened_bytes_max,
            )
            start = fetched.next_offset
