"""The cluster and its settings: ApiVersions, Metadata, FindCoordinator, DescribeConfigs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from goqueue.client.kafka.wire.frame import ApiVersion, decoded, encoded, only
from goqueue.kafka_wire.decode import Decoded

_NO_TOPIC_ID = UUID(int=0)
_TRANSACTION = 1
_TOPIC = 2
_BROKER = 4


class BrokerListed(NamedTuple):
    """A broker of the cluster."""

    node_id: int
    host: str
    port: int


class PartitionListed(NamedTuple):
    """A partition of a topic; `error` is Kafka's code."""

    error: int
    partition: int
    leader_id: int
    leader_epoch: int


class TopicListed(NamedTuple):
    """A topic, or the error about it."""

    error: int
    name: str
    id: UUID
    is_internal: bool
    partitions: list[PartitionListed]


class MetadataReply(NamedTuple):
    """The cluster as one of its brokers knows it."""

    brokers: list[BrokerListed]
    cluster_id: str | None
    topics: list[TopicListed]


class CoordinatorReply(NamedTuple):
    """The broker that coordinates a transactional id."""

    error: int
    message: str
    broker: BrokerListed


class ConfigsReply(NamedTuple):
    """Settings by name; a secret one has no value."""

    error: int
    message: str
    settings: dict[str, str | None]


def read_api_versions(body: memoryview) -> tuple[int, dict[int, tuple[int, int]]]:
    """Return the error, and the first and last version of each request that is offered."""
    reply = decoded(ApiVersion.API_VERSIONS, body)
    return reply.error_code, {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys}


def metadata(topics: Sequence[str] | None) -> bytearray:
    """Ask for some topics, or for all, and create none."""
    wanted = None if topics is None else [{"topic_id": _NO_TOPIC_ID, "name": name} for name in topics]
    return encoded(ApiVersion.METADATA, {"topics": wanted, "allow_auto_topic_creation": False})


def read_metadata(body: memoryview) -> MetadataReply:
    """Return the answer."""
    reply = decoded(ApiVersion.METADATA, body)
    return MetadataReply([_broker(each) for each in reply.brokers], reply.cluster_id, [_topic(t) for t in reply.topics])


def find_coordinator(transactional_id: str) -> bytearray:
    """Ask which broker coordinates a transactional id."""
    return encoded(ApiVersion.FIND_COORDINATOR, {"key_type": _TRANSACTION, "coordinator_keys": [transactional_id]})


def read_coordinator(body: memoryview) -> CoordinatorReply:
    """Return the answer about the one id that was asked for."""
    found = only(decoded(ApiVersion.FIND_COORDINATOR, body).coordinators)
    return CoordinatorReply(found.error_code, found.error_message or "", _broker(found))


def describe_broker(node_id: int) -> bytearray:
    """Ask for all settings of a broker."""
    resource = {"resource_type": _BROKER, "resource_name": str(node_id), "configuration_keys": None}
    return encoded(ApiVersion.DESCRIBE_CONFIGS, {"resources": [resource]})


def describe_topics(names: Sequence[str], setting: str) -> bytearray:
    """Ask for one setting of some topics."""
    resources = [{"resource_type": _TOPIC, "resource_name": name, "configuration_keys": [setting]} for name in names]
    return encoded(ApiVersion.DESCRIBE_CONFIGS, {"resources": resources})


def read_configs(body: memoryview) -> ConfigsReply:
    """Return the settings of the one broker that was asked for."""
    return only(read_configs_by_name(body).values())


def read_configs_by_name(body: memoryview) -> dict[str, ConfigsReply]:
    """Return the settings of all resources that were asked for."""
    results = decoded(ApiVersion.DESCRIBE_CONFIGS, body).results
    return {
        each.resource_name: ConfigsReply(
            each.error_code, each.error_message or "", {setting.name: setting.value for setting in each.configs}
        )
        for each in results
    }


def _broker(listed: Decoded) -> BrokerListed:
    return BrokerListed(listed.node_id, listed.host, listed.port)


def _topic(listed: Decoded) -> TopicListed:
    partitions = [
        PartitionListed(each.error_code, each.partition_index, each.leader_id, each.leader_epoch)
        for each in listed.partitions
    ]
    return TopicListed(listed.error_code, listed.name or "", listed.topic_id, listed.is_internal, partitions)
