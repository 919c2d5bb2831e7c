"""Who is there and who does what: ApiVersions, Metadata, FindCoordinator, DescribeConfigs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from goqueue.client.kafka.wire.fields import INT8, INT16, INT32, NO_TAGS, NULL, Fields, array, text
from goqueue.client.problems import BadReply

T = TypeVar("T")

_OFFERED = struct.Struct(">hhh")
_PARTITION = struct.Struct(">hiii")
_NO_TOPIC_ID = bytes(16)
_TRANSACTION = 1
_TOPIC = 2
_BROKER = 4
_IS_FALSE = b"\0"


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
    """A topic, or which error there is instead."""

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
    """Which broker looks after a transactional id."""

    error: int
    message: str
    broker: BrokerListed


class ConfigsReply(NamedTuple):
    """Settings by name; a secret one has no value."""

    error: int
    message: str
    settings: dict[str, str | None]


def read_api_versions(fields: Fields) -> tuple[int, dict[int, tuple[int, int]]]:
    """Return error, and the first and last version of each request that is offered; the request has no body."""
    error = fields.number(INT16)
    count = fields.number(INT32)
    if count < 0 or count * _OFFERED.size > fields.left:
        raise BadReply(f"the reply cannot be read: it announces {count} requests in {fields.left} bytes")
    offered = [fields.unpack(_OFFERED) for _ in range(count)]
    fields.end()
    return error, {key: (first, last) for key, first, last in offered}


def metadata(topics: Sequence[str] | None) -> bytes:
    """Ask for some topics, or for all; none is made on the way."""
    wanted = NULL if topics is None else array([_NO_TOPIC_ID + text(name) + NO_TAGS for name in topics])
    return wanted + _IS_FALSE + _IS_FALSE + NO_TAGS


def read_metadata(fields: Fields) -> MetadataReply:
    """Read the answer."""

    def broker() -> BrokerListed:
        found = BrokerListed(fields.number(INT32), fields.text(), fields.number(INT32))
        fields.nullable_text()
        fields.tags()
        return found

    def partition() -> PartitionListed:
        found = PartitionListed(*fields.unpack(_PARTITION))
        for _ in ("replicas", "in sync", "offline"):
            fields.array(lambda: fields.number(INT32), item_bytes_min=4)
        fields.tags()
        return found

    def topic() -> TopicListed:
        found = TopicListed(
            fields.number(INT16),
            fields.text(),
            fields.uuid(),
            fields.flag(),
            fields.array(partition, item_bytes_min=_PARTITION.size + 4),
        )
        fields.number(INT32)
        fields.tags()
        return found

    fields.number(INT32)
    brokers = fields.array(broker, item_bytes_min=11)
    cluster_id = fields.nullable_text()
    fields.number(INT32)
    topics = fields.array(topic, item_bytes_min=26)
    fields.tags()
    fields.end()
    return MetadataReply(brokers, cluster_id, topics)


def find_coordinator(transactional_id: str) -> bytes:
    """Ask who looks after a transactional id."""
    return INT8.pack(_TRANSACTION) + array([text(transactional_id)]) + NO_TAGS


def read_coordinator(fields: Fields) -> CoordinatorReply:
    """Read the answer about the one id that was asked for."""

    def coordinator() -> CoordinatorReply:
        fields.text()
        broker = BrokerListed(fields.number(INT32), fields.text(), fields.number(INT32))
        found = CoordinatorReply(fields.number(INT16), fields.nullable_text() or "", broker)
        fields.tags()
        return found

    fields.number(INT32)
    found = fields.array(coordinator, item_bytes_min=14)
    fields.tags()
    fields.end()
    return _only(found)


def describe_broker(node_id: int) -> bytes:
    """Ask for all settings of a broker."""
    resource = INT8.pack(_BROKER) + text(str(node_id)) + NULL + NO_TAGS
    return array([resource]) + _IS_FALSE + _IS_FALSE + NO_TAGS


def describe_topics(names: Sequence[str], setting: str) -> bytes:
    """Ask for one setting of some topics."""
    keys = array([text(setting)])
    resources = [INT8.pack(_TOPIC) + text(name) + keys + NO_TAGS for name in names]
    return array(resources) + _IS_FALSE + _IS_FALSE + NO_TAGS


def read_configs(fields: Fields) -> ConfigsReply:
    """Read the settings of the one broker that was asked for."""
    return _only(list(read_configs_by_name(fields).values()))


def read_configs_by_name(fields: Fields) -> dict[str, ConfigsReply]:
    """Read the settings of all that was asked for."""

    def synonym() -> None:
        fields.text()
        fields.nullable_text()
        fields.number(INT8)
        fields.tags()

    def setting() -> tuple[str, str | None]:
        found = (fields.text(), fields.nullable_text())
        fields.flag()
        fields.number(INT8)
        fields.flag()
        fields.array(synonym, item_bytes_min=4)
        fields.number(INT8)
        fields.nullable_text()
        fields.tags()
        return found

    def resource() -> tuple[str, ConfigsReply]:
        error, message = fields.number(INT16), fields.nullable_text() or ""
        fields.number(INT8)
        name = fields.text()
        settings = dict(fields.array(setting, item_bytes_min=8))
        fields.tags()
        return name, ConfigsReply(error, message, settings)

    fields.number(INT32)
    found = dict(fields.array(resource, item_bytes_min=7))
    fields.tags()
    fields.end()
    return found


def _only(found: list[T]) -> T:
    if len(found) != 1:
        raise BadReply(f"the reply answers {len(found)} questions where one was asked")
    return found[0]
