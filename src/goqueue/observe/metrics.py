"""Metrics: the broker's own counters, read on request.

Nothing is counted here, so metrics cost no time per message. The loop takes a `Snapshot`, which is quick; `exposition`
formats it in a thread, which takes tens of milliseconds for a thousand partitions.

At most 1,000 partitions have series of their own, in the order of their topics' names; the others are only counted.
`group_metrics` covers groups and transactions, `queue_metrics` queues, `pipeline_metrics` pipelines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from goqueue.broker.admission import OperationKey
from goqueue.broker.broker import Broker
from goqueue.errors import GoQueueError
from goqueue.observe.group_metrics import GroupSnapshot, look_at_groups
from goqueue.observe.pipeline_metrics import PipelineSnapshot, look_at_pipelines
from goqueue.observe.queue_metrics import QueueSnapshot, look_at_queue_groups
from goqueue.runtime.partition import Partition

PARTITIONS_MAX = 1000


class Connections(Protocol):
    """Counters of connections."""

    @property
    def connections(self) -> int:
        """How many there are."""
        ...

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many were refused or closed, by reason."""
        ...


class Durations(NamedTuple):
    """How many operations there were, how long they took together, and how many by classes of `BUCKETS_S`."""

    total: int
    seconds: float
    by_bucket: Sequence[int]


class PartitionRow(NamedTuple):
    """One partition; the numbers are in the order of the metrics about partitions."""

    labels: tuple[str, str]
    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All values at one moment."""

    requests: Mapping[OperationKey, Durations]
    connections: int
    dropped: Mapping[str, int]
    gauges: Mapping[str, float]
    partitions: Sequence[PartitionRow]
    groups: GroupSnapshot
    pipelines: PipelineSnapshot
    queues: QueueSnapshot
    unreadable: Mapping[str, int]


class Metrics:
    """The metrics of one broker; shares nothing with others in the same process."""

    def __init__(self, broker: Broker, limiter: Connections) -> None:
        self._broker = broker
        self._limiter = limiter

    async def expose(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics as text, in a format that the reader accepts, and the media type of that format."""
        snapshot = self._look(await look_at_groups(self._broker), await look_at_queue_groups(self._broker))
        return await asyncio.get_running_loop().run_in_executor(self._broker.core.threads, self._told, snapshot, accept)

    def _told(self, snapshot: Snapshot, accept: str) -> tuple[bytes, str]:
        # Imported on first use: a broker without metrics starts sooner.
        from goqueue.observe.exposition import tell

        return tell(snapshot, self._free_fraction(), accept)

    def _free_fraction(self) -> float | None:
        try:
            return self._broker.core.disk.free_fraction(self._broker.core.directory)
        except OSError:
            # When the disk is broken, everything else is wanted all the more.
            return None

    def _look(self, groups: GroupSnapshot, queues: QueueSnapshot) -> Snapshot:
        broker = self._broker
        rows: list[PartitionRow] = []
        total = offline = 0
        for name in sorted(broker.topics.by_name):
            for index, partition in enumerate(broker.topics.by_name[name].partitions):
                total += 1
                offline += isinstance(partition, GoQueueError) or bool(partition.log.obstacle)
                if total <= PARTITIONS_MAX and isinstance(partition, Partition):
                    rows.append(PartitionRow((name, str(index)), _numbers(partition)))
        return Snapshot(
            {
                key: Durations(stats.count, stats.seconds, tuple(stats.by_bucket))
                for key, stats in broker.core.admission.stats.items()
            },
            self._limiter.connections,
            dict(self._limiter.dropped),
            {
                "goqueue_disk_guarded": broker.core.admission.is_disk_guarded,
                "goqueue_draining": broker.core.admission.is_draining,
                "goqueue_topics": len(broker.topics.by_name),
                "goqueue_partitions": total,
                "goqueue_partitions_omitted": max(0, total - PARTITIONS_MAX),
                "goqueue_logs_offline": offline,
                "goqueue_groups": groups.count,
                "goqueue_groups_omitted": groups.count - len(groups.members),
            },
            rows,
            groups,
            look_at_pipelines(broker),
            queues,
            dict(broker.topics.unreadable_batches),
        )


def _numbers(partition: Partition) -> tuple[float, ...]:
    log = partition.log
    return (
        partition.records_in,
        partition.bytes_in,
        partition.bytes_out,
        log.start_offset,
        partition.high_watermark,
        log.size_bytes,
    )
