"""confluent-kafka's admin client."""

# The library's admin module neither marks its public names as exported nor types all of them.
# mypy: disable-error-code="attr-defined,no-untyped-call"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import confluent_kafka
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

from tests.clients.adapters.confluent import broker_refusals
from tests.clients.contract import DEADLINE_S, ClusterView, NewTopic, PartitionView, Place, Refused, Setting, Source


class ConfluentAdmin:
    """The admin client of confluent-kafka."""

    is_incremental = True

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topics: Sequence[NewTopic]) -> None:
        wanted = [
            confluent_kafka.admin.NewTopic(topic.name, topic.partitions, topic.replicas, config=dict(topic.settings))
            for topic in topics
        ]
        _all(self._admin.create_topics(wanted, request_timeout=DEADLINE_S))

    def delete(self, names: Sequence[str]) -> None:
        _all(self._admin.delete_topics(list(names), request_timeout=DEADLINE_S))

    def grow(self, topic: str, partitions: int) -> None:
        _all(self._admin.create_partitions([NewPartitions(topic, partitions)], request_timeout=DEADLINE_S))

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=DEADLINE_S).topics)

    def describe(self, topic: str) -> list[PartitionView]:
        (described,) = _all(self._admin.describe_topics(TopicCollection([topic]), request_timeout=DEADLINE_S))
        return [
            PartitionView(
                partition.id,
                partition.leader.id,
                tuple(node.id for node in partition.replicas),
                tuple(node.id for node in partition.isr),
            )
            for partition in described.partitions
        ]

    def settings(self, topic: str) -> dict[str, Setting]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (entries,) = _all(self._admin.describe_configs([resource], request_timeout=DEADLINE_S))
        found = {name: Setting(entry.value, Source(entry.source)) for name, entry in entries.items()}
        assert all(entries[name].is_default == setting.is_default for name, setting in found.items())
        return found

    def alter(self, topic: str, changes: Mapping[str, str | None]) -> None:
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _all(self._admin.incremental_alter_configs([resource], request_timeout=DEADLINE_S))

    def delete_records(self, place: Place, before: int) -> int:
        wanted = [TopicPartition(*place, before)]
        (deleted,) = _all(self._admin.delete_records(wanted, request_timeout=DEADLINE_S))
        return int(deleted.low_watermark)

    def newest(self, place: Place) -> tuple[int, int]:
        """Return offset and timestamp of the record with the highest timestamp."""
        wanted = {TopicPartition(*place): OffsetSpec.max_timestamp()}
        (found,) = _all(self._admin.list_offsets(wanted, request_timeout=DEADLINE_S))
        return found.offset, found.timestamp

    def is_ready(self, topic: str, partitions: int) -> bool:
        """Tell whether every partition of a new topic answers; another broker says so some time after its creation."""
        wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
        try:
            _all(self._admin.list_offsets(wanted, request_timeout=DEADLINE_S))
        except Refused:
            return False
        return True

    def cluster(self) -> ClusterView:
        with broker_refusals():
            described = self._admin.describe_cluster(request_timeout=DEADLINE_S).result(DEADLINE_S)
        assert described.cluster_id
        nodes = {node.id: f"{node.host}:{node.port}" for node in described.nodes}
        return ClusterView(described.controller.id, nodes)

    def close(self) -> None:
        # The library ends with its last reference.
        del self._admin


def _all(futures: Mapping[Any, Future[Any]]) -> list[Any]:
    with broker_refusals():
        return [future.result(DEADLINE_S) for future in futures.values()]
