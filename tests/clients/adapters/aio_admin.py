"""aiokafka's admin client: it returns most replies as they came, errors and all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aiokafka.admin
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.clients.adapters.aio import LoopThread
from tests.clients.contract import ClusterView, NewTopic, PartitionView, Place, Refused, Setting, Source


class AiokafkaAdmin:
    """The admin client of aiokafka; it alters settings by the older request, which replaces all of them."""

    is_incremental = False

    def __init__(self, bootstrap: str) -> None:
        self._loop = LoopThread()
        self._admin = self._loop.run(_start(bootstrap))

    def create(self, topics: Sequence[NewTopic]) -> None:
        wanted = [
            aiokafka.admin.NewTopic(topic.name, topic.partitions, topic.replicas, topic_configs=dict(topic.settings))
            for topic in topics
        ]
        reply = self._loop.run(self._admin.create_topics(wanted))
        _check((code, message or name) for name, code, message in reply.topic_errors)

    def delete(self, names: Sequence[str]) -> None:
        reply = self._loop.run(self._admin.delete_topics(list(names)))
        _check((code, name) for name, code in reply.topic_error_codes)

    def grow(self, topic: str, partitions: int) -> None:
        self._loop.run(self._admin.create_partitions({topic: NewPartitions(partitions)}))

    def topics(self) -> set[str]:
        return set(self._loop.run(self._admin.list_topics()))

    def describe(self, topic: str) -> list[PartitionView]:
        # Asking for one topic would create it: the library always allows that. So it asks for all.
        found = [
            described for described in self._loop.run(self._admin.describe_topics()) if described["topic"] == topic
        ]
        if not found:
            raise Refused(3, f"{topic} is not among all topics")
        _check((described["error_code"], topic) for described in found)
        return sorted(
            PartitionView(
                partition["partition"], partition["leader"], tuple(partition["replicas"]), tuple(partition["isr"])
            )
            for partition in found[0]["partitions"]
        )

    def settings(self, topic: str) -> dict[str, Setting]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (reply,) = self._loop.run(self._admin.describe_configs([resource]))
        ((code, message, _, _, entries),) = reply.resources
        _check([(code, message)])
        return {name: Setting(value, Source(source)) for name, value, _, source, *_ in entries}

    def alter(self, topic: str, changes: Mapping[str, str | None]) -> None:
        kept = {name: value for name, value in changes.items() if value is not None}
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=kept)
        (reply,) = self._loop.run(self._admin.alter_configs([resource]))
        _check((code, message) for code, message, *_ in reply.resources)

    def delete_records(self, place: Place, before: int) -> int:
        partition = TopicPartition(*place)
        deleted = self._loop.run(self._admin.delete_records({partition: RecordsToDelete(before_offset=before)}))
        return int(deleted[partition])

    def cluster(self) -> ClusterView:
        described = self._loop.run(self._admin.describe_cluster())
        assert described["cluster_id"]
        nodes = {node["node_id"]: f"{node['host']}:{node['port']}" for node in described["brokers"]}
        return ClusterView(described["controller_id"], nodes)

    def close(self) -> None:
        self._loop.run(self._admin.close())
        self._loop.close()


async def _start(bootstrap: str) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    return admin


def _check(outcomes: Any) -> None:
    for code, message in outcomes:
        if code:
            raise Refused(code, str(message))
