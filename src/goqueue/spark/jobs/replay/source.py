"""What a replay has to know about its source before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from goqueue.client.kafka import TopicPartition
from goqueue.spark.source.offsets_lookup import Bounds, connect, look, require_all
from goqueue.spark.source.options import ARCHIVE, Kind, parse_options


class SourceFacts(NamedTuple):
    """The offsets of each partition, and the time of the oldest message, archived or not; None if none has a time."""

    id: str
    bounds: Mapping[int, Bounds]
    oldest_ms: int | None

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return len(self.bounds)


def look_at_source(bootstrap: str, topic: str, archive: str) -> SourceFacts:
    """Ask the broker, and look at the archive if it is needed; UnknownTopic if there is no such topic."""
    options = parse_options({"kafka.bootstrap.servers": bootstrap, "topic": topic, ARCHIVE: archive}, Kind.BATCH)
    with connect(options) as data:
        seen = look(data, options)
        require_all(seen, options)
        bounds = seen[topic].partitions
        places = [TopicPartition(topic, number) for number in bounds]
        found = data.offsets(places, 0, options.isolation)
    in_logs = [each.timestamp_ms for each in found.values() if each.offset is not None and each.timestamp_ms >= 0]
    files = [file for each in bounds.values() for piece in each.archived for file in piece.files]
    archived = [file.first_ms for file in files if file.first_ms is not None]
    return SourceFacts(str(seen[topic].id), bounds, min([*in_logs, *archived], default=None))
