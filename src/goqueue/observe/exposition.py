"""Metrics in the formats of Prometheus: text, or OpenMetrics.

Names begin with `goqueue_`, units are seconds and bytes. Counters start at 0 with the process. Reasons for dropping
connections are bounded, since they quote what clients do: at most 50, in which every number is an N.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from typing_extensions import override

from goqueue import __version__
from goqueue.broker.admission import BUCKETS_S, OperationKey
from goqueue.model.visible_text import visible_lines
from goqueue.observe.group_metrics import GroupSnapshot, shown
from goqueue.observe.metrics import Durations, PartitionRow, Snapshot
from goqueue.observe.pipeline_metrics import PipelineSnapshot
from goqueue.observe.queue_metrics import QueueSnapshot

REASONS_MAX = 50
_BOUNDS = [*map(str, BUCKETS_S), "+Inf"]
_PARTITION_LABELS = ("topic", "partition")
_GROUP_LABELS = ("group", "topic")
_SETTLED = ("acked", "nacked", "rejected", "released", "extended", "refused")
_PIPELINE_LABELS = ("pipeline", "query")
_GAUGES = {
    "goqueue_disk_guarded": "1 while writes are refused for want of room.",
    "goqueue_draining": "1 while the broker stops.",
    "goqueue_topics": "Topics in use.",
    "goqueue_partitions": "Partitions of all topics.",
    "goqueue_partitions_omitted": "Partitions that have no series of their own.",
    "goqueue_logs_offline": "Partitions that cannot be opened or take no writes.",
    "goqueue_groups": "Groups, including those with offsets only.",
    "goqueue_groups_omitted": "Groups that have no series of their own.",
}


def tell(snapshot: Snapshot, free_fraction: float | None, accept: str) -> tuple[bytes, str]:
    """Return a snapshot as text, in a format that the reader accepts, and the media type of that format."""
    encode, media_type = choose_encoder(accept)
    # One of its own each time: the one that the library offers is shared by all that runs in this process.
    registry = CollectorRegistry()
    registry.register(_Telling(snapshot, free_fraction))
    ProcessCollector(namespace="goqueue", registry=registry)
    # The library writes out line feeds in labels, and nothing else; a backslash in a label is written as two.
    return visible_lines(encode(registry).decode(), backslash="\\\\").encode(), media_type


class _Telling(Collector):
    """A snapshot in the words of Prometheus."""

    def __init__(self, snapshot: Snapshot, free_fraction: float | None) -> None:
        self._snapshot = snapshot
        self._free_fraction = free_fraction

    @override
    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot
        version = GaugeMetricFamily("goqueue_build_info", "The version that runs.", labels=("version", "python"))
        version.add_metric((__version__, ".".join(map(str, sys.version_info[:3]))), 1)
        yield version
        yield from _requests(snapshot.requests)
        yield from _connections(snapshot)
        if (free := self._free_fraction) is not None:
            yield GaugeMetricFamily("goqueue_disk_free_ratio", "The free fraction of the disk, from 0 to 1.", free)
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(name, text, snapshot.gauges[name])
        yield from _partitions(snapshot.partitions)
        unreadable = CounterMetricFamily(
            "goqueue_unreadable_batches", "Stored batches that readers found damaged or malformed.", labels=("topic",)
        )
        for topic, count in sorted(snapshot.unreadable.items()):
            unreadable.add_metric((topic,), count)
        yield unreadable
        yield from _groups(snapshot.groups)
        yield from _transactions(snapshot.groups)
        yield from _pipelines(snapshot.pipelines)
        yield from _queues(snapshot.queues)


def _requests(requests: Mapping[OperationKey, Durations]) -> Iterator[Metric]:
    counts = CounterMetricFamily(
        "goqueue_requests",
        "Operations that ended, by outcome: ok, or the code of an error.",
        labels=("operation", "protocol", "outcome"),
    )
    durations = HistogramMetricFamily(
        "goqueue_request_duration_seconds",
        "How long operations took; a read that waits for messages takes as long as it waits.",
        labels=("operation", "protocol"),
    )
    by_operation: dict[tuple[str, str], list[Durations]] = {}
    for key, each in requests.items():
        counts.add_metric(key, each.total)
        by_operation.setdefault((key.operation, key.protocol), []).append(each)
    for labels, outcomes in by_operation.items():
        by_bucket = map(sum, zip(*(each.by_bucket for each in outcomes), strict=True))
        durations.add_metric(labels, list(_cumulated(by_bucket)), sum(each.seconds for each in outcomes))
    yield counts
    yield durations


def _cumulated(by_bucket: Iterator[int]) -> Iterator[tuple[str, float]]:
    count = 0
    for bound, in_class in zip(_BOUNDS, by_bucket, strict=True):
        count += in_class
        yield bound, count


def _connections(snapshot: Snapshot) -> Iterator[Metric]:
    yield GaugeMetricFamily("goqueue_connections", "Open connections of all protocols.", snapshot.connections)
    by_reason: Counter[str] = Counter()
    for reason, count in snapshot.dropped.items():
        # Reasons quote numbers; each would be a series.
        told = re.sub(r"-?\d+", "N", reason)
        by_reason[told if told in by_reason or len(by_reason) < REASONS_MAX - 1 else "other"] += count
    dropped = CounterMetricFamily(
        "goqueue_connections_dropped", "Connections that were refused or closed, by reason.", labels=("reason",)
    )
    for reason, count in by_reason.items():
        dropped.add_metric((reason,), count)
    yield dropped


def _partitions(rows: Sequence[PartitionRow]) -> Iterator[Metric]:
    families: list[CounterMetricFamily | GaugeMetricFamily] = [
        CounterMetricFamily("goqueue_partition_records_in", "Records published.", labels=_PARTITION_LABELS),
        CounterMetricFamily("goqueue_partition_bytes_in", "Bytes of batches published.", labels=_PARTITION_LABELS),
        CounterMetricFamily("goqueue_partition_bytes_out", "Bytes of batches read.", labels=_PARTITION_LABELS),
        GaugeMetricFamily("goqueue_partition_start_offset", "The first offset to read.", labels=_PARTITION_LABELS),
        GaugeMetricFamily(
            "goqueue_partition_end_offset", "The offset after the last record.", labels=_PARTITION_LABELS
        ),
        GaugeMetricFamily("goqueue_partition_size_bytes", "The size of the log on disk.", labels=_PARTITION_LABELS),
    ]
    for row in rows:
        for family, number in zip(families, row.numbers, strict=True):
            family.add_metric(row.labels, number)
    yield from families


def _groups(groups: GroupSnapshot) -> Iterator[Metric]:
    members = GaugeMetricFamily("goqueue_group_members", "Members of a group.", labels=("group",))
    for name, count in groups.members.items():
        members.add_metric((name,), count)
    yield members
    behind = GaugeMetricFamily(
        "goqueue_group_lag_messages", "Offsets from the committed offset of a group to the end.", labels=_GROUP_LABELS
    )
    age = GaugeMetricFamily(
        "goqueue_group_lag_seconds", "The age of the oldest message that is not committed.", labels=_GROUP_LABELS
    )
    for labels, lag in groups.lags.items():
        behind.add_metric(labels, lag.messages)
        if lag.seconds is not None:
            age.add_metric(labels, lag.seconds)
    yield behind
    yield age
    yield from _retention(groups)
    rebalances = CounterMetricFamily(
        "goqueue_group_rebalances", "Rebalances of all groups, by cause.", labels=("kind",)
    )
    for kind, count in groups.rebalances.items():
        rebalances.add_metric((kind.value,), count)
    yield rebalances


def _retention(groups: GroupSnapshot) -> Iterator[Metric]:
    left = GaugeMetricFamily(
        "goqueue_group_retention_left_seconds",
        "Time until retention deletes messages that a group has not read; 0 if it is due, or they are held back.",
        labels=_GROUP_LABELS,
    )
    lost = GaugeMetricFamily(
        "goqueue_group_lost_messages", "Offsets that were deleted before the group had read them.", labels=_GROUP_LABELS
    )
    for labels, lag in groups.lags.items():
        lost.add_metric(labels, lag.lost)
        if lag.left_seconds is not None:
            left.add_metric(labels, lag.left_seconds)
    yield left
    yield lost
    held = GaugeMetricFamily(
        "goqueue_topic_held_bytes",
        "Bytes beyond retention that a topic keeps because groups have not read them.",
        labels=("topic",),
    )
    for topic, size_bytes in groups.held_bytes.items():
        held.add_metric((topic,), size_bytes)
    yield held


def _transactions(groups: GroupSnapshot) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "goqueue_transactions", "Transactional ids, by the state of their transaction.", labels=("state",)
    )
    for state, count in groups.transactions.items():
        states.add_metric((state.value,), count)
    yield states
    ended = CounterMetricFamily("goqueue_transactions_ended", "Transactions that ended, by cause.", labels=("cause",))
    for cause, count in groups.ended.items():
        ended.add_metric((cause.value,), count)
    yield ended


def _queues(snapshot: QueueSnapshot) -> Iterator[Metric]:
    """Yield all metrics about queue groups, and about redrives of their dead letters."""
    yield GaugeMetricFamily("goqueue_queues", "Queue groups.", snapshot.count)
    yield GaugeMetricFamily(
        "goqueue_queues_omitted", "Queue groups that have no series of their own.", snapshot.omitted
    )
    yield from _queue_state(snapshot)
    yield from _queue_history(snapshot)
    yield from _redrives(snapshot)


def _queue_state(snapshot: QueueSnapshot) -> Iterator[Metric]:
    paused = GaugeMetricFamily("goqueue_queue_paused", "1 while nothing is delivered to the group.", labels=("group",))
    depth = GaugeMetricFamily(
        "goqueue_queue_depth_messages", "Upper bound of messages that are not settled.", labels=_GROUP_LABELS
    )
    leased = GaugeMetricFamily(
        "goqueue_queue_in_flight_messages", "Messages that are leased to consumers.", labels=_GROUP_LABELS
    )
    oldest = GaugeMetricFamily(
        "goqueue_queue_oldest_message_age_seconds",
        "The age of the oldest message that is not settled.",
        labels=_GROUP_LABELS,
    )
    stalled = GaugeMetricFamily(
        "goqueue_queue_stalled_dead_messages",
        "Dead messages that cannot become dead letters now.",
        labels=_GROUP_LABELS,
    )
    for group, is_paused in {each.group: bool(each.paused) for each in snapshot.queues}.items():
        paused.add_metric((shown(group),), is_paused)
    for each in snapshot.queues:
        labels = (shown(each.group), each.topic)
        depth.add_metric(labels, each.depth)
        leased.add_metric(labels, each.in_flight)
        stalled.add_metric(labels, each.stalled)
        if each.depth == 0:
            oldest.add_metric(labels, 0)
        elif each.oldest_ms is not None:
            oldest.add_metric(labels, max(snapshot.now_ms - each.oldest_ms, 0) / 1000)
    members = GaugeMetricFamily(
        "goqueue_queue_share_members", "Kafka's share consumers that are members of the group.", labels=("group",)
    )
    for group, count in snapshot.members.items():
        members.add_metric((shown(group),), count)
    yield from (paused, depth, leased, oldest, stalled, members)


def _queue_history(snapshot: QueueSnapshot) -> Iterator[Metric]:
    delivered = CounterMetricFamily(
        "goqueue_queue_deliveries", "Messages delivered to consumers.", labels=_GROUP_LABELS
    )
    again = CounterMetricFamily(
        "goqueue_queue_redeliveries", "Deliveries that were not the first of their message.", labels=_GROUP_LABELS
    )
    settled = CounterMetricFamily(
        "goqueue_queue_settled", "Messages that consumers settled, by verdict.", labels=(*_GROUP_LABELS, "verdict")
    )
    expired = CounterMetricFamily("goqueue_queue_leases_expired", "Leases that expired.", labels=_GROUP_LABELS)
    dead = CounterMetricFamily(
        "goqueue_queue_dead_letters", "Messages that became dead letters.", labels=(*_GROUP_LABELS, "reason")
    )
    for each in snapshot.queues:
        labels = (shown(each.group), each.topic)
        delivered.add_metric(labels, each.tally.delivered)
        again.add_metric(labels, each.tally.redelivered)
        expired.add_metric(labels, each.expired)
        for verdict in _SETTLED:
            settled.add_metric((*labels, verdict), getattr(each.tally, verdict))
        for reason, count in each.tally.dead_letters.items():
            dead.add_metric((*labels, reason), count)
    yield from (delivered, again, settled, expired, dead)


def _redrives(snapshot: QueueSnapshot) -> Iterator[Metric]:
    under_way = GaugeMetricFamily("goqueue_redrives", "Redrives that are under way.", labels=("state",))
    for state, count in snapshot.redrives.items():
        under_way.add_metric((state,), count)
    letters = CounterMetricFamily(
        "goqueue_redrive_letters", "Dead letters that redrives processed, by outcome.", labels=("topic", "fate")
    )
    for topic, moves in snapshot.redriven.items():
        letters.add_metric((topic, "moved"), moves.moved)
        letters.add_metric((topic, "skipped_redriven"), moves.redriven)
        letters.add_metric((topic, "skipped_looping"), moves.looping)
        letters.add_metric((topic, "failed"), moves.failed)
    yield from (under_way, letters)


def _pipelines(snapshot: PipelineSnapshot) -> Iterator[Metric]:
    """Yield all metrics about pipelines."""
    up = GaugeMetricFamily(
        "goqueue_pipeline_up", "1 if a run of the pipeline has reported lately and not ended.", labels=("pipeline",)
    )
    for pipeline, is_up in snapshot.up:
        up.add_metric((pipeline,), is_up)
    yield up
    restarts = CounterMetricFamily(
        "goqueue_pipeline_restarts", "Queries that failed and were started again in the run.", labels=("pipeline",)
    )
    for pipeline, count in snapshot.restarts:
        restarts.add_metric((pipeline,), count)
    yield restarts
    yield GaugeMetricFamily(
        "goqueue_pipeline_queries_omitted",
        "Queries of pipelines that have no series of their own.",
        snapshot.queries_omitted,
    )
    yield from _pipeline_queries(snapshot)
    bad_rows = CounterMetricFamily(
        "goqueue_pipeline_bad_rows", "Rows that broke a rule in the run.", labels=(*_PIPELINE_LABELS, "rule")
    )
    for labels, rows in snapshot.rules:
        bad_rows.add_metric(labels, rows)
    yield bad_rows
    warned_rows = CounterMetricFamily(
        "goqueue_pipeline_warned_rows",
        "Rows that broke a rule in the run, and were kept.",
        labels=(*_PIPELINE_LABELS, "rule"),
    )
    for labels, rows in snapshot.warnings:
        warned_rows.add_metric(labels, rows)
    yield warned_rows


def _pipeline_queries(snapshot: PipelineSnapshot) -> Iterator[Metric]:
    rows = CounterMetricFamily(
        "goqueue_pipeline_rows", "Rows that a query has read in the run.", labels=_PIPELINE_LABELS
    )
    speed = GaugeMetricFamily(
        "goqueue_pipeline_rows_per_second", "Rows that a query processes per second.", labels=_PIPELINE_LABELS
    )
    lag = GaugeMetricFamily(
        "goqueue_pipeline_lag_messages", "Messages that a query has not read.", labels=_PIPELINE_LABELS
    )
    took = GaugeMetricFamily(
        "goqueue_pipeline_batch_seconds", "How long the last batch of a query took.", labels=_PIPELINE_LABELS
    )
    for pipeline, progress, is_running in snapshot.queries:
        labels = (pipeline, progress.name)
        rows.add_metric(labels, progress.rows)
        if not is_running:
            continue
        speed.add_metric(labels, progress.rows_per_second)
        if progress.lag is not None:
            lag.add_metric(labels, progress.lag)
        if progress.batch_seconds is not None:
            took.add_metric(labels, progress.batch_seconds)
    yield from (rows, speed, lag, took)
