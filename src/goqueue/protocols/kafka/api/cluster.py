"""The cluster as clients and tools see it: one node.

Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator, DescribeLogDirs, ElectLeaders,
ListPartitionReassignments, DescribeQuorum. A reply names the host that the client has connected to, unless another one
is configured: a client that has reached that host can do so again. There is one log directory, one possible leader,
nothing to move, and a quorum of one. Kafka's controllers keep their state in `__cluster_metadata`; DescribeQuorum
describes the catalogue under that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from goqueue.broker.topics.admin import describe_topic, find_topics
from goqueue.broker.topics.cluster_view import (
    Leadership,
    describe_catalog,
    describe_logs,
    leadership_of,
)
from goqueue.broker.topics.open_topic import OpenTopic
from goqueue.errors import GoQueueError, UnknownTopic
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply, encode_response
from goqueue.model.topic import TopicPartition
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.api.configs import LISTENER_NAMES
from goqueue.protocols.kafka.api.context import UNKNOWN_OPERATIONS, Context, error_fields
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

METADATA = 3
_NO_TOPIC_ID = UUID(int=0)
_NULL_NAMES_FROM = 12
_INVALID_REQUEST = 42
_GROUP, _TRANSACTION, _SHARE = range(3)
_DESCRIBE_PARTITIONS_MAX = 2000
_PREFERRED_LEADER_NOT_AVAILABLE, _ELIGIBLE_LEADERS_NOT_AVAILABLE, _ELECTION_NOT_NEEDED = 80, 83, 84
_PREFERRED = 0
_UNKNOWN_BYTES = -1
_NO_LAG = 0
_CONTROLLER_TOPIC = "__cluster_metadata"


async def metadata(context: Context, request: Request) -> Reply | bytes:
    """List brokers and topics; may create a topic that is requested by name."""
    is_all = request.topics is None or (request.version == 0 and not request.topics)
    # A request that names a topic a thousand times gets it once.
    wanted = () if is_all else tuple(dict.fromkeys(_name_or_id(topic) for topic in request.topics))
    revision = context.broker.topics.revision
    found = await find_topics(
        context.broker.topics,
        context.caller,
        None if is_all else wanted,
        may_create=request.allow_auto_topic_creation,
        presence=context.presence,
    )
    # Encoding a thousand partitions takes ten milliseconds, and clients ask often.
    key = (request.version, is_all, wanted, context.reached_at)
    body = context.kept.find(context.broker.topics.revision, key)
    if body is None:
        body = bytes(encode_response(METADATA, request.version, _metadata(context, request, wanted, found)))
        # If anything changed while topics were created, the first ones that were found may be gone.
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
    """Return the id of the cluster and its brokers."""
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
            topics.append({**error_fields(error), "name": name, "topic_authorized_operations": UNKNOWN_OPERATIONS})
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
    """Return this broker as coordinator of groups and transactions. (Some clients compress only if this is offered.)"""
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


async def describe_log_dirs(context: Context, request: Request) -> Reply:
    """Return the sizes of the logs of partitions; the data directory is named without its path."""
    wanted = None
    if request.topics is not None:
        named = [TopicPartition(each.topic, index) for each in request.topics for index in each.partitions or ()]
        wanted = list(dict.fromkeys(named))
    directory = await describe_logs(context.broker.topics, context.caller, wanted)
    topics: dict[str, list[Reply]] = {}
    for place, size_bytes in directory.sizes.items():
        part: Reply = {
            "partition_index": place.partition,
            "partition_size": size_bytes,
            "offset_lag": _NO_LAG,
            "is_future_key": False,
        }
        topics.setdefault(place.topic, []).append(part)
    result: Reply = {
        "error_code": 0,
        "log_dir": directory.name,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
        "total_bytes": _UNKNOWN_BYTES,
        "usable_bytes": _UNKNOWN_BYTES,
    }
    return {"error_code": 0, "results": [result]}


async def elect_leaders(context: Context, request: Request) -> Reply:
    """Answer that partitions have their leader; without names, list none, as nothing has changed."""
    results: list[Reply] = []
    for wanted in request.topic_partitions or ():
        # A request that names a partition a thousand times gets it once.
        parts = []
        for index in dict.fromkeys(wanted.partitions or ()):
            # There may be very many: let other connections have turns in between.
            await turns(1)
            parts.append(await _elected(context, TopicPartition(wanted.topic, index), request))
        results.append({"topic": wanted.topic, "partition_result": parts})
    return {"error_code": 0, "replica_election_results": results}


async def _elected(context: Context, place: TopicPartition, request: Request) -> Reply:
    try:
        found = await leadership_of(context.broker.topics, context.caller, place)
    except GoQueueError as error:
        return {"partition_id": place.partition, **error_fields(error)}
    if found is Leadership.LED:
        return _election(place, _ELECTION_NOT_NEEDED, "the only broker leads it already")
    # The first version has no type: it is about preferred leaders.
    is_preferred = getattr(request, "election_type", _PREFERRED) == _PREFERRED
    code = _PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else _ELIGIBLE_LEADERS_NOT_AVAILABLE
    return _election(place, code, "its log cannot be used, and no other broker has one")


def _election(place: TopicPartition, code: int, message: str) -> Reply:
    return {"partition_id": place.partition, "error_code": code, "error_message": message}


async def list_partition_reassignments(context: Context, request: Request) -> Reply:
    """Answer that no partition is moving to another broker."""
    del context, request
    return {"error_code": 0, "error_message": None, "topics": []}


async def describe_quorum(context: Context, request: Request) -> Reply:
    """Describe a quorum of one, whose log is that of the catalogue."""
    topics = []
    for wanted in request.topics or ():
        parts = []
        for index in dict.fromkeys(each.partition_index for each in wanted.partitions or ()):
            await turns(1)
            parts.append(await _quorum(context, wanted.topic_name, index))
        topics.append({"topic_name": wanted.topic_name, "partitions": parts})
    listeners = [
        {"name": LISTENER_NAMES.get(name, name.upper()), "host": host, "port": port}
        for name, (host, port) in (context.listeners or {"kafka": context.reached_at}).items()
    ]
    node = {"node_id": context.node_id, "listeners": listeners}
    return {"error_code": 0, "error_message": None, "topics": topics, "nodes": [node]}


async def _quorum(context: Context, topic: str, index: int) -> Reply:
    if (topic, index) != (_CONTROLLER_TOPIC, 0):
        error = UnknownTopic(f"{topic}-{index} has no quorum", hint=f"{_CONTROLLER_TOPIC}-0 has one")
        nothing = {"leader_id": -1, "leader_epoch": -1, "high_watermark": -1, "current_voters": [], "observers": []}
        return {"partition_index": index, **error_fields(error), **nothing}
    log = await describe_catalog(context.broker.topics, context.caller)
    now_ms = context.broker.core.clock.now_ms()
    voter = {
        "replica_id": context.node_id,
        "replica_directory_id": None,
        "log_end_offset": log.end_offset,
        "last_fetch_timestamp": now_ms,
        "last_caught_up_timestamp": now_ms,
    }
    return {
        "partition_index": index,
        **error_fields(None),
        "leader_id": context.node_id,
        "leader_epoch": log.leader_epoch,
        "high_watermark": log.high_watermark,
        "current_voters": [voter],
        "observers": [],
    }
