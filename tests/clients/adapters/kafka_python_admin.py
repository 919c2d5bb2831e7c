"""kafka-python's admin client."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kafka import KafkaAdminClient, TopicPartition  # type: ignore[import-untyped]
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec  # type: ignore[import-untyped]

from tests.clients.adapters.kafka_python import broker_refusals
from tests.clients.contract import ClusterView, NewTopic, PartitionView, Place, Refused, Setting, Source


class KafkaPythonAdmin:
    """The admin client of kafka-python."""

    is_incremental = True

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create(self, topics: Sequence[NewTopic]) -> None:
        wanted = {
            topic.name: {
                "num_partitions": topic.partitions,
                "replication_factor": topic.replicas,
                "configs": dict(topic.settings),
            }
            for topic in topics
        }
        with broker_refusals():
            self._admin.create_topics(wanted)

    def delete(self, names: Sequence[str]) -> None:
        with broker_refusals():
            self._admin.delete_topics(list(names))

    def grow(self, topic: str, partitions: int) -> None:
        with broker_refusals():
            self._admin.create_partitions({topic: partitions})

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def describe(self, topic: str) -> list[PartitionView]:
        (described,) = self._admin.describe_topics([topic])
        if described["error_code"]:
            raise Refused(described["error_code"], topic)
        return sorted(
            PartitionView(
                partition["partition_index"],
                partition["leader_id"],
                tuple(partition["replica_nodes"]),
                tuple(partition["isr_nodes"]),
            )
            for partition in described["partitions"]
        )

    def settings(self, topic: str) -> dict[str, Setting]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        described = self._admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: Setting(entry["value"], _SOURCES[entry["config_source"]]) for name, entry in described.items()}

    def alter(self, topic: str, changes: Mapping[str, str | None]) -> None:
        operations = {
            name: ("SET", value) if value is not None else ("DELETE", None) for name, value in changes.items()
        }
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=operations)
        # It would refuse unknown names by itself; what the broker says about them is what we want to see.
        outcome = self._admin.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
        if outcome != "OK":
            found = re.match(r"\[Error (\d+)\]", outcome)
            raise Refused(int(found.group(1)) if found else -1, outcome)

    def delete_records(self, place: Place, before: int) -> int:
        partition = TopicPartition(*place)
        with broker_refusals():
            deleted = self._admin.delete_records({partition: before})
        return int(deleted[partition]["low_watermark"])

    def newest(self, place: Place) -> tuple[int, int]:
        """Return offset and timestamp of the record with the highest timestamp."""
        partition = TopicPartition(*place)
        found = self._admin.list_partition_offsets({partition: OffsetSpec.MAX_TIMESTAMP})[partition]
        return found.offset, found.timestamp

    def cluster(self) -> ClusterView:
        described = self._admin.describe_cluster()
        assert described["cluster_id"]
        nodes = {node["broker_id"]: f"{node['host']}:{node['port']}" for node in described["brokers"]}
        return ClusterView(described["controller_id"], nodes)

    def close(self) -> None:
        self._admin.close()


_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": Source.TOPIC,
    "DYNAMIC_BROKER_CONFIG": Source.DYNAMIC_BROKER,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": Source.DYNAMIC_DEFAULT_BROKER,
    "STATIC_BROKER_CONFIG": Source.STATIC_BROKER,
    "DEFAULT_CONFIG": Source.DEFAULT,
}
