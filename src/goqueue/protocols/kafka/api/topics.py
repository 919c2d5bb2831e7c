"""Topics: CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords. Each item has a result of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

from goqueue.broker.topics.admin import create_topic, delete_records, delete_topic, grow_topic
from goqueue.errors import GoQueueError, Invalid, InvalidPartitions, InvalidReplication
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.model.topic import Topic
from goqueue.model.topic_settings import TABLE, parse
from goqueue.protocols.kafka.api.configs import described
from goqueue.protocols.kafka.api.context import Context, error_fields

_NO_TOPIC_ID = UUID(int=0)
_CREATED_AT_ONCE = 100


async def create_topics(context: Context, request: Request) -> Reply:
    """Create topics, or only check whether they could be created."""
    wanted = request.topics or ()
    counts = Counter(topic.name for topic in wanted)

    async def create(topic: Request) -> Reply:
        try:
            if counts[topic.name] > 1:
                raise Invalid(f"topic {topic.name!r} is asked for {counts[topic.name]} times in one request")
            made = await _create(context, topic, is_dry_run=request.validate_only)
            return {"name": topic.name, **error_fields(None), **_made(context, made)}
        except GoQueueError as error:
            return {"name": topic.name, **error_fields(error), "configs": None}

    # Many at once: creating a topic is waiting for the disk, which serves many at a time. Not all at once: a creation
    # that has begun is carried out, and a broker that drains waits for it.
    each_once = list({topic.name: topic for topic in wanted}.values())
    results: list[Reply] = []
    for start in range(0, len(each_once), _CREATED_AT_ONCE):
        results += await asyncio.gather(*map(create, each_once[start : start + _CREATED_AT_ONCE]))
    return {"topics": results}


async def _create(context: Context, topic: Request, *, is_dry_run: bool) -> Topic:
    partitions = _assigned(context, topic) if topic.assignments else topic.num_partitions
    return await create_topic(
        context.broker.topics,
        context.caller,
        topic.name,
        partitions=None if partitions == -1 else partitions,
        replication=1 if topic.assignments else topic.replication_factor,
        config={each.name: each.value for each in topic.configs or () if each.value is not None},
        is_dry_run=is_dry_run,
    )


def _assigned(context: Context, topic: Request) -> int:
    """Return the number of partitions of a manual assignment, if a single broker can fulfil it."""
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        raise Invalid("with an assignment, neither partitions nor replicas may be given as a number")
    if sorted(each.partition_index for each in topic.assignments) != list(range(len(topic.assignments))):
        raise InvalidPartitions("an assignment must name each partition from 0 on once")
    if any(each.broker_ids != [context.node_id] for each in topic.assignments):
        raise InvalidReplication(f"every partition must be assigned to broker {context.node_id} alone")
    return len(topic.assignments)


def _made(context: Context, topic: Topic) -> Reply:
    settings = parse(topic.config, context.broker.core.options.topic_defaults)
    configs = [described(setting, settings, topic.config) for setting in TABLE.values()]
    return {
        "topic_id": topic.id,
        "num_partitions": topic.partitions,
        "replication_factor": 1,
        "configs": configs,
        "topic_config_error_code": 0,
    }


async def delete_topics(context: Context, request: Request) -> Reply:
    """Delete topics, by name or by id."""
    names = getattr(request, "topic_names", ())  # the form of old versions
    wanted = request.topics or [Request(name=name, topic_id=_NO_TOPIC_ID) for name in names]
    results = []
    for topic in wanted:
        named = {"name": topic.name, "topic_id": topic.topic_id}
        try:
            if topic.name is None:
                named["name"] = context.broker.topics.topic_by_id(topic.topic_id).topic.name
            await delete_topic(
                context.broker.topics, context.caller, topic.topic_id if topic.name is None else topic.name
            )
            results.append({**named, **error_fields(None)})
        except GoQueueError as error:
            results.append({**named, **error_fields(error)})
    return {"responses": results}


async def create_partitions(context: Context, request: Request) -> Reply:
    """Add partitions to topics."""
    results = []
    for topic in request.topics or ():
        try:
            if any(each.broker_ids != [context.node_id] for each in topic.assignments or ()):
                raise InvalidReplication(f"every partition must be assigned to broker {context.node_id} alone")
            await grow_topic(
                context.broker.topics, context.caller, topic.name, topic.count, is_dry_run=request.validate_only
            )
            results.append({"name": topic.name, **error_fields(None)})
        except GoQueueError as error:
            results.append({"name": topic.name, **error_fields(error)})
    return {"results": results}


async def remove_records(context: Context, request: Request) -> Reply:
    """Delete the records before given offsets."""
    topics = []
    for topic in request.topics or ():
        partitions = []
        for part in topic.partitions or ():
            try:
                low = await delete_records(
                    context.broker.topics, context.caller, topic.name, part.partition_index, part.offset
                )
                partitions.append({"partition_index": part.partition_index, "low_watermark": low, **error_fields(None)})
            except GoQueueError as error:
                partitions.append({"partition_index": part.partition_index, "low_watermark": -1, **error_fields(error)})
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}
