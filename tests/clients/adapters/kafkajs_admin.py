"""kafkajs's admin client, over the same bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.clients.adapters.kafkajs import Bridge
from tests.clients.contract import (
    ClusterView,
    ErrorCode,
    NewTopic,
    PartitionView,
    Place,
    Refused,
    Setting,
    Source,
)


class KafkajsAdmin:
    """The admin client of kafkajs; it alters settings by the older request, which replaces all of them."""

    is_incremental = False

    def __init__(self, bootstrap: str) -> None:
        self._bridge = Bridge(bootstrap)

    def create(self, topics: Sequence[NewTopic]) -> None:
        wanted = [
            {
                "topic": topic.name,
                "numPartitions": topic.partitions,
                "replicationFactor": topic.replicas,
                "configEntries": _entries(topic.settings),
            }
            for topic in topics
        ]
        # It does not take "exists already" for an error, but tells that it created nothing.
        if not self._bridge.call("create", topics=wanted):
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "kafkajs created no topic")

    def delete(self, names: Sequence[str]) -> None:
        self._bridge.call("delete", topics=list(names))

    def grow(self, topic: str, partitions: int) -> None:
        self._bridge.call("grow", topic=topic, count=partitions)

    def topics(self) -> set[str]:
        return set(self._bridge.call("topics"))

    def describe(self, topic: str) -> list[PartitionView]:
        described = self._bridge.call("describe", topic=topic)
        return sorted(
            PartitionView(partition, leader, tuple(replicas), tuple(in_sync))
            for partition, leader, replicas, in_sync in described
        )

    def settings(self, topic: str) -> dict[str, Setting]:
        return {
            entry["configName"]: Setting(entry["configValue"], Source(entry["configSource"]))
            for entry in self._bridge.call("settings", topic=topic)
        }

    def alter(self, topic: str, changes: Mapping[str, str | None]) -> None:
        kept = {name: value for name, value in changes.items() if value is not None}
        self._bridge.call("alter", topic=topic, settings=_entries(kept))

    def delete_records(self, place: Place, before: int) -> int:
        self._bridge.call("deleteRecords", topic=place.topic, partition=place.partition, before=before)
        # It keeps the broker's answer to itself.
        earliest, _ = self._bridge.call("bounds", topic=place.topic, partition=place.partition)
        return int(earliest)

    def cluster(self) -> ClusterView:
        described = self._bridge.call("cluster")
        assert described["clusterId"]
        return ClusterView(described["controller"], dict(described["nodes"]))

    def close(self) -> None:
        self._bridge.close()


def _entries(settings: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in settings.items()]
