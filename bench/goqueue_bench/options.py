"""Options of the benchmarks of a broker, named as in Kafka clients and topic settings.

Imports no benchmark, so that the command line can show the choices quickly.
"""

from __future__ import annotations

from enum import StrEnum


class Flush(StrEnum):
    """When a broker makes what it stored durable: before it answers, or soon after."""

    GROUP = "group"
    INTERVAL = "interval"


class Acks(StrEnum):
    """Acknowledgement of a publish: by all in-sync replicas, by the leader, or none."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Answer(StrEnum):
    """Acknowledgement for benchmarks that need a reply."""

    ALL = "all"
    LEADER = "1"

    @property
    def on_the_wire(self) -> int:
        """The number that stands for it in a request."""
        return -1 if self is Answer.ALL else 1


class Codec(StrEnum):
    """How a producer compresses its batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Client(StrEnum):
    """Which client a workload uses: the stock one, or a bare socket that does as little as possible."""

    CONFLUENT = "confluent"
    RAW = "raw"


class GroupPart(StrEnum):
    """Parts of the benchmark of groups."""

    COMMITS = "commits"
    JOINER = "joiner"
    REBALANCE = "rebalance"
    LOAD = "load"


class QueuePart(StrEnum):
    """Parts of the benchmark of queues."""

    BATCHES = "batches"
    SINGLES = "singles"
    DELIVERY = "delivery"


class Neighbour(StrEnum):
    """Workload of a heavy client while a modest one is measured."""

    BULK_KAFKA = "bulk_kafka"
    BULK_HTTP = "bulk_http"
    PIPELINED = "pipelined"
    QUEUE_STATS = "queue_stats"
    DEAD_LETTERS = "dead_letters"
    TINY_CHUNKS = "tiny_chunks"
    MANY_MESSAGES = "many_messages"
