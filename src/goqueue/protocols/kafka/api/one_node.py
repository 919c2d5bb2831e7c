"""What tools ask of clusters, answered for one node: DescribeLogDirs, ElectLeaders, ListPartitionReassignments,
DescribeQuorum, ListConfigResources.

There is one log directory, one possible leader, nothing to move, and a quorum of one. Kafka's controllers keep their
state in `__cluster_metadata`; DescribeQuorum tells of the catalogue under that name.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.broker.topics.cluster_view import (
    Leadership,
    describe_catalog,
    describe_logs,
    leadership_of,
    list_topic_names,
)
from goqueue.errors import GoQueueError, UnknownTopic
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.model.topic import TopicPartition
from goqueue.protocols.kafka.api.configs import LISTENER_NAMES, Resource
from goqueue.protocols.kafka.api.context import Context, told
from goqueue.runtime.waiters import turns

_UNSUPPORTED_VERSION = 35
_PREFERRED_LEADER_NOT_AVAILABLE, _ELIGIBLE_LEADERS_NOT_AVAILABLE, _ELECTION_NOT_NEEDED = 80, 83, 84
_PREFERRED = 0
_UNKNOWN_BYTES = -1
_NO_LAG = 0
_CONTROLLER_TOPIC = "__cluster_metadata"
_BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 8, 16, 32
_CONFIGURABLE = {Resource.TOPIC, Resource.BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP}


async def describe_log_dirs(context: Context, request: Request) -> Reply:
    """Tell how large the logs of partitions are; the data directory is named without its path."""
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
    """Tell that partitions have their leader; without names, list none, as nothing has changed."""
    results: list[Reply] = []
    for wanted in request.topic_partitions or ():
        # Whoever names a partition a thousand times gets it once.
        parts = []
        for index in dict.fromkeys(wanted.partitions or ()):
            # There may be very many of them: others have a turn in between.
            await turns(1)
            parts.append(await _elected(context, TopicPartition(wanted.topic, index), request))
        results.append({"topic": wanted.topic, "partition_result": parts})
    return {"error_code": 0, "replica_election_results": results}


async def _elected(context: Context, place: TopicPartition, request: Request) -> Reply:
    try:
        found = await leadership_of(context.broker.topics, context.caller, place)
    except GoQueueError as error:
        return {"partition_id": place.partition, **told(error)}
    if found is Leadership.LED:
        return _election(place, _ELECTION_NOT_NEEDED, "the only broker leads it already")
    # The first version has no type: it is about preferred leaders.
    is_preferred = getattr(request, "election_type", _PREFERRED) == _PREFERRED
    code = _PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else _ELIGIBLE_LEADERS_NOT_AVAILABLE
    return _election(place, code, "its log cannot be used, and no other broker has one")


def _election(place: TopicPartition, code: int, message: str) -> Reply:
    return {"partition_id": place.partition, "error_code": code, "error_message": message}


async def list_partition_reassignments(context: Context, request: Request) -> Reply:
    """Tell that no partition is moving to another broker."""
    del context, request
    return {"error_code": 0, "error_message": None, "topics": []}


async def describe_quorum(context: Context, request: Request) -> Reply:
    """Tell of a quorum of one, whose log is that of the catalogue."""
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
        return {"partition_index": index, **told(error), **nothing}
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
        **told(None),
        "leader_id": context.node_id,
        "leader_epoch": log.leader_epoch,
        "high_watermark": log.high_watermark,
        "current_voters": [voter],
        "observers": [],
    }


async def list_config_resources(context: Context, request: Request) -> Reply:
    """List what has settings: topics and this broker. Version 0 asks for metrics that clients push: there are none."""
    # Without types, all are meant.
    wanted = set(getattr(request, "resource_types", ()) or ()) or _CONFIGURABLE
    if not wanted <= _CONFIGURABLE:
        return {"error_code": _UNSUPPORTED_VERSION, "config_resources": []}
    if request.version == 0:
        return {"error_code": 0, "config_resources": []}
    names: Sequence[str] = ()
    if Resource.TOPIC in wanted:
        names = await list_topic_names(context.broker.topics, context.caller)
    found: list[Reply] = [{"resource_name": name, "resource_type": int(Resource.TOPIC)} for name in names]
    if Resource.BROKER in wanted:
        found.append({"resource_name": str(context.node_id), "resource_type": int(Resource.BROKER)})
    return {"error_code": 0, "config_resources": found}
