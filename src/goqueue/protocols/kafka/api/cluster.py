"""Who we are: Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator.

A reply names the host that the client has connected to, unless another one is configured: whoever could reach us
there can do so again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from goqueue.broker.topics.admin import describe_topic, find_topics
from goqueue.broker.topics.open_topic import OpenTopic
from goqueue.errors import GoQueueError
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply, encode_response
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.api.context import UNKNOWN_OPERATIONS, Context, told
from goqueue.runtime.partition import Partition

METADATA = 3
_NO_TOPIC_ID = UUID(int=0)
_NULL_NAMES_FROM = 12
_INVALID_REQUEST = 42
_GROUP, _TRANSACTION, _SHARE = range(3)
_DESCRIBE_PARTITIONS_MAX = 2000


async def metadata(context: Context, request: Request) -> Reply | bytes:
    """List brokers and topics; a topic that is asked for by name may be made on the way."""
    is_all = request.topics is None or (request.version == 0 and not request.topics)
    # Whoever names a topic a thousand times gets it once.
    wanted = () if is_all else tuple(dict.fromkeys(_name_or_id(topic) for topic in request.topics))
    revision = context.broker.topics.revision
    found = await find_topics(
        context.broker.topics,
        context.caller,
        None if is_all else wanted,
        may_create=request.allow_auto_topic_creation,
        presence=context.presence,
    )
    # Encoding a thousand partitions takes ten milliseconds, and clients ask again and again.
    key = (request.version, is_all, wanted, context.reached_at)
    body = context.kept.find(context.broker.topics.revision, key)
    if body is None:
        body = bytes(encode_response(METADATA, request.version, _metadata(context, request, wanted, found)))
        # If anything has changed while topics were being made, what was found first may be gone.
        if revision == context.broker.topics.revision and not any(isinstance(topic, GoQueueError) for topic in found):
            context.kept.keep(revision, key, body)
    return body


def _name_or_id(wanted: Request) -> str | UUID:
    return wanted.name if wanted.name is not None else wanted.topic_id or _NO_TOPIC_ID


def _metadata(
    context: Context, request: Request, wanted: Sequence[str | UUID], found: Sequence[OpenTopic | GoQueueError]
) -> Reply:
    topics = [
        _missing(wanted[number], topic, request.version) if isinstance(topic, GoQueueError) else _topic(context, topic)
        for number, topic in enumerate(found)
    ]
    return {
        "brokers": [_broker(context)],
        "cluster_id": str(context.broker.topics.cluster_id),
        "controller_id": context.node_id,
        "topics": topics,
        "cluster_authorized_operations": UNKNOWN_OPERATIONS,
    }


def _missing(wanted: str | UUID, error: GoQueueError, version: int) -> Reply:
    is_named = isinstance(wanted, str)
    return {
        "error_code": fault_of(error).kafka,
        "name": wanted if is_named else None if version >= _NULL_NAMES_FROM else "",
        "topic_id": None if is_named else wanted,
        "topic_authorized_operations": UNKNOWN_OPERATIONS,
    }


def _broker(context: Context) -> Reply:
    host, port = context.reached_at
    return {"node_id": context.node_id, "broker_id": context.node_id, "host": host, "port": port}


def _topic(context: Context, opened: OpenTopic) -> Reply:
    topic = opened.topic
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(context, index, found) for index, found in enumerate(opened.partitions)],
        "topic_authorized_operations": UNKNOWN_OPERATIONS,
    }


def _partition(context: Context, index: int, found: Partition | GoQueueError) -> Reply:
    is_usable = isinstance(found, Partition)
    return {
        "error_code": 0 if is_usable else fault_of(found).kafka,  # type: ignore[arg-type]
        "partition_index": index,
        "leader_id": context.node_id if is_usable else -1,
        "leader_epoch": found.leader_epoch if isinstance(found, Partition) else -1,
        "replica_nodes": [context.node_id],
        "isr_nodes": [context.node_id] if is_usable else [],
        # May be null by the protocol, but Kafka's own admin client does not expect that.
        "eligible_leader_replicas": [],
        "last_known_elr": [],
        "offline_replicas": [] if is_usable else [context.node_id],
    }


async def describe_cluster(context: Context, request: Request) -> Reply:
    """Tell the cluster's id and its brokers."""
    del request
    return {
        "cluster_id": str(context.broker.topics.cluster_id),
        "controller_id": context.node_id,
        "brokers": [_broker(context)],
        "cluster_authorized_operations": UNKNOWN_OPERATIONS,
    }


async def describe_topic_partitions(context: Context, request: Request) -> Reply:
    """List the partitions of topics in pages: in order of names, from the cursor on."""
    names = sorted({wanted.name for wanted in request.topics or ()})
    if not names:
        found = await find_topics(context.broker.topics, context.caller, None)
        names = [opened.topic.name for opened in found if not isinstance(opened, GoQueueError)]
    limit = min(max(request.response_partition_limit, 1), _DESCRIBE_PARTITIONS_MAX)
    first_index = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        first_index = request.cursor.partition_index if names and names[0] == request.cursor.topic_name else 0
    return await _page(context, names, first_index, limit)


async def _page(context: Context, names: Sequence[str], first_index: int, left: int) -> Reply:
    topics: list[Any] = []
    for name in names:
        if left <= 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
        try:
            topic = dict(_topic(context, await describe_topic(context.broker.topics, context.caller, name)))
        except GoQueueError as error:
            topics.append({**told(error), "name": name, "topic_authorized_operations": UNKNOWN_OPERATIONS})
            continue
        partitions = topic["partitions"][first_index : first_index + left]
        end = first_index + len(partitions)
        topics.append({**topic, "partitions": partitions})
        if end < len(topic["partitions"]):
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": end}}
        left -= len(partitions)
        first_index = 0
    return {"topics": topics, "next_cursor": None}


async def find_coordinator(context: Context, request: Request) -> Reply:
    """Say where groups and transactions are looked after: here. (Some clients compress only if this is answered.)"""
    found = _coordinator(context, request.key_type)
    return {**found, "coordinators": [{**found, "key": key} for key in request.coordinator_keys]}


def _coordinator(context: Context, key_type: int) -> Reply:
    if key_type in (_GROUP, _TRANSACTION, _SHARE):
        return {"error_code": 0, "error_message": None, **_broker(context)}
    return {
        "error_code": _INVALID_REQUEST,
        "error_message": f"there is nothing of type {key_type}",
        "node_id": -1,
        "host": "",
        "port": -1,
    }
