"""The source of a replay, looked up before it begins, and the identity of its target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from goqueue.client import Client, Patience, topics
from goqueue.client.kafka import TopicPartition
from goqueue.errors import Conflict, UnknownTopic
from goqueue.spark.source.lookup import Bounds, connect, look, require_all
from goqueue.spark.source.options import ARCHIVE, ReadKind, parse_options

RESTART_HINT: Final = "--restart starts over, and creates the topic if it is missing"

_TIMEOUT_S: Final = 10.0


class SourceFacts(NamedTuple):
    """The offsets of each partition, and the time of the oldest message, archived or not; None without timestamps."""

    id: str
    bounds: Mapping[int, Bounds]
    oldest_ms: int | None

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.bounds)


def look_at_source(bootstrap: str, topic: str, archive: str) -> SourceFacts:
    """Ask the broker, and read the archive if it is needed; UnknownTopic if the topic does not exist."""
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
    """The target with the earlier messages of a replay is gone, so the replay cannot continue."""

    code = "replay_target_lost"


def gone(job: str, topic: str) -> TargetLost:
    """Return the error for a deleted target."""
    return TargetLost(f"topic {topic!r}, the target of replay {job}, was deleted", hint=RESTART_HINT)


def require_target(http_url: str, job: str, topic: str, topic_id: str) -> None:
    """Raise TargetLost if a topic was deleted, or has another id; an empty id matches any."""
    with Client(http_url, timeout_s=_TIMEOUT_S, patience=Patience(attempts=1)) as client:
        try:
            found = client.send(topics.describe(topic))
        except UnknownTopic:
            raise gone(job, topic) from None
    if topic_id and found.id != topic_id:
        raise TargetLost(
            f"topic {topic!r} was deleted and created again since replay {job} began, so its earlier messages are gone",
            hint=RESTART_HINT,
        )
