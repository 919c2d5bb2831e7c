"""Answers administration tools about the cluster of one node: its logs, its leaders, and the log of the catalogue.

One node leads every partition that it can use and has nothing to move or to elect. The catalogue is what Kafka keeps in
the log of its controllers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.errors import GoQueueError
from goqueue.model.topic import TopicPartition
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import pause, pieces

if TYPE_CHECKING:
    from goqueue.broker.topics.service import TopicService


class LogDirectorySizes(NamedTuple):
    """The data directory by its last name, and the bytes of each log in it."""

    name: str
    sizes: Mapping[TopicPartition, int]


class Leadership(Enum):
    """Whether a partition needs another leader: it has one, or its log cannot be used and no other node has it."""

    LED = auto()
    UNAVAILABLE = auto()


class CatalogLog(NamedTuple):
    """How far the log of the catalogue is, and the epoch of its leader."""

    leader_epoch: int
    end_offset: int
    high_watermark: int


@operation("cluster.describe_logs", on="cluster")
async def describe_logs(
    topics: TopicService,
    caller: Caller,
    wanted: Sequence[TopicPartition] | None,
) -> LogDirectorySizes:
    """Return the logs of some partitions, or of all for None; partitions that are unknown or unusable are left out."""
    sizes: dict[TopicPartition, int] = {}
    wanted = _all_partitions(topics) if wanted is None else wanted
    for start, piece in pieces(wanted):
        if start:
            await pause(wanted)
        for each in piece:
            partition = _find(topics, each)
            if partition is not None:
                # Not that of its segments: asking for these opens a closed log.
                sizes[each] = partition.log.size_bytes
    return LogDirectorySizes(topics.core.directory.name, sizes)


@operation("cluster.leadership", on="topic", at="partition.topic")
async def leadership_of(topics: TopicService, caller: Caller, partition: TopicPartition) -> Leadership:
    """Return whether a partition has its leader; UnknownTopic or UnknownPartition if there is none."""
    opened = topics.topic(partition.topic)
    if partition.partition < 0 or partition.partition >= len(opened.partitions):
        # Raises that there is none.
        opened.partition(partition.partition)
    found = opened.partitions[partition.partition]
    return Leadership.LED if isinstance(found, Partition) and not found.log.fault else Leadership.UNAVAILABLE


@operation("cluster.describe_catalog", on="cluster")
async def describe_catalog(topics: TopicService, caller: Caller) -> CatalogLog:
    """Return how far the log of the catalogue is."""
    partition = topics.catalog_partition
    return CatalogLog(partition.leader_epoch, partition.log.end_offset, partition.high_watermark)


@operation("cluster.list_configurable", on="cluster")
async def list_topic_names(topics: TopicService, caller: Caller) -> Sequence[str]:
    """Return the names of all topics, which have settings, in order."""
    return sorted(topics.by_name)


def _all_partitions(topics: TopicService) -> Sequence[TopicPartition]:
    return [
        TopicPartition(name, index)
        for name in sorted(topics.by_name)
        for index in range(len(topics.by_name[name].partitions))
    ]


def _find(topics: TopicService, each: TopicPartition) -> Partition | None:
    try:
        return topics.topic(each.topic).partition(each.partition)
    except GoQueueError:
        return None
