"""What a replay has to know about its source before it begins.

Whether the topic that a replay publishes to is still the one that it began with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from goqueue.client import Client, Patience, topics
from goqueue.client.kafka import TopicPartition
from goqueue.errors import Conflict, UnknownTopic
from goqueue.spark.source.lookup import Bounds, connect, look, require_all
from goqueue.spark.source.options import ARCHIVE, ReadKind, parse_options

RESTART_HINT: Final = "--restart begins anew, and makes the topic if it is not there"

_TIMEOUT_S: Final = 10.0


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
    options = parse_options({"kafka.bootstrap.servers": bootstrap, "topic": topic, ARCHIVE: archive}, ReadKind.BATCH)
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


class TargetLost(Conflict):
    """What a replay has published is not there any more, so to go on would leave a topic without it."""

    code = "replay_target_lost"


def gone(job: str, topic: str) -> TargetLost:
    """Return the error for a target that was deleted."""
    return TargetLost(f"topic {topic!r}, to which replay {job} was publishing, is gone", hint=RESTART_HINT)


def require_target(http_url: str, job: str, topic: str, topic_id: str) -> None:
    """Raise TargetLost if a topic is gone, or is another one of that name; an empty id is that of any."""
    with Client(http_url, timeout_s=_TIMEOUT_S, patience=Patience(attempts=1)) as client:
        try:
            found = client.send(topics.describe(topic))
        except UnknownTopic:
            raise gone(job, topic) from None
    if topic_id and found.id != topic_id:
        raise TargetLost(
            f"topic {topic!r} was deleted and made again since replay {job} began, and what it had published is gone",
            hint=RESTART_HINT,
        )
