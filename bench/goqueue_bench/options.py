"""What one can choose when a broker is measured, in the words of Kafka clients and of the topic settings.

Imports nothing that measures, so that the command line can name the choices without waiting for it.
"""

from __future__ import annotations

from enum import StrEnum


class Flush(StrEnum):
    """When a broker makes what it stored durable: before it answers, or soon after."""

    GROUP = "group"
    INTERVAL = "interval"


class Acks(StrEnum):
    """What a producer waits for: every replica in sync, the leader, nothing."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Answer(StrEnum):
    """What a producer waits for where there has to be an answer to wait for."""

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
    """What is measured of groups."""

    COMMITS = "commits"
    JOINER = "joiner"
    REBALANCE = "rebalance"
    LOAD = "load"


class QueuePart(StrEnum):
    """What is measured of queues."""

    BATCHES = "batches"
    SINGLES = "singles"
    DELIVERY = "delivery"


class Neighbour(StrEnum):
    """What a heavy client does while a modest one is measured."""

    BULK_KAFKA = "bulk_kafka"
    BULK_HTTP = "bulk_http"
    PIPELINED = "pipelined"
    QUEUE_STATS = "queue_stats"
    DEAD_LETTERS = "dead_letters"
    TINY_CHUNKS = "tiny_chunks"
    MANY_MESSAGES = "many_messages"
