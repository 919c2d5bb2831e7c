"""Topics by HTTP: their shapes in JSON, and the calls of the operations on them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from goqueue.api.topics import NewTopic, Partition, Partitions, Setting, Topic, TopicChange, Topics, TopicsQuery, Value
from goqueue.broker.topics.admin import alter_topic, create_topic, delete_topic, describe_topic, find_topics, grow_topic
from goqueue.broker.topics.open_topic import OpenTopic
from goqueue.errors import (
    GoQueueError,
    InvalidPartitions,
    InvalidReplication,
    InvalidTopicName,
    InvalidTopicSettings,
    LogOffline,
    TopicExists,
    TopicProtected,
    UnknownTopic,
)
from goqueue.model.topic import Topic as CatalogTopic
from goqueue.model.topic_settings import TABLE, TopicSettings
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import STORAGE_ERRORS, route
from goqueue.protocols.http.wire.problems import error_of
from goqueue.protocols.http.wire.times import moment
from goqueue.runtime.partition import Partition as OwnedPartition


@route(
    "POST",
    "/topics",
    "topics.create",
    status=201,
    errors=(
        InvalidTopicName,
        InvalidTopicSettings,
        InvalidPartitions,
        InvalidReplication,
        TopicExists,
        TopicProtected,
        *STORAGE_ERRORS,
    ),
)
async def create(context: Context, request: NewTopic) -> Answer[Topic]:
    """Create a topic."""
    topic = await create_topic(
        context.broker.topics,
        context.caller,
        request.name,
        partitions=request.partitions,
        replication=request.replication,
        config=_texts(request.config),
    )
    location = f"{context.prefix}/topics/{topic.name}".encode()
    return Answer(_described(context, topic), 201, headers=[(b"location", location)])


@route("GET", "/topics", "topics.list")
async def list_all(context: Context, query: TopicsQuery) -> Topics:
    """List all topics."""
    found = await find_topics(context.broker.topics, context.caller, None)
    topics = [each.topic for each in found if isinstance(each, OpenTopic)]
    return Topics([_told(each) for each in topics if query.internal or not each.is_internal])


@route("GET", "/topics/{topic}", "topics.describe", errors=(UnknownTopic,))
async def describe(context: Context) -> Topic:
    """Describe a topic with all its settings."""
    opened = await describe_topic(context.broker.topics, context.caller, context.topic)
    return _described(context, opened.topic)


@route(
    "PATCH",
    "/topics/{topic}",
    "topics.change",
    errors=(UnknownTopic, InvalidTopicSettings, InvalidPartitions, TopicProtected, *STORAGE_ERRORS),
)
async def change(context: Context, request: TopicChange) -> Topic:
    """Change settings of a topic, or add partitions.

    Either all changes are made or, if one is invalid, none.
    """
    broker, caller, name = context.broker, context.caller, context.topic
    opened = await describe_topic(broker.topics, caller, name)

    def edit(now: OpenTopic) -> Mapping[str, str]:
        kept = {each: value for each, value in now.topic.config.items() if each not in request.config}
        return kept | _texts({each: value for each, value in request.config.items() if value is not None})

    if request.config:
        await alter_topic(broker.topics, caller, name, edit, is_dry_run=True)
    if request.partitions is not UNSET and request.partitions != opened.topic.partitions:
        await grow_topic(broker.topics, caller, name, request.partitions)
    if request.config:
        await alter_topic(broker.topics, caller, name, edit)
    return _described(context, broker.topics.topic(name).topic)


@route("DELETE", "/topics/{topic}", "topics.delete", status=204, errors=(UnknownTopic, TopicProtected, *STORAGE_ERRORS))
async def delete(context: Context) -> None:
    """Delete a topic with all its messages."""
    await delete_topic(context.broker.topics, context.caller, context.topic)


@route("GET", "/topics/{topic}/partitions", "topics.partitions", errors=(UnknownTopic,))
async def partitions(context: Context) -> Partitions:
    """Return offsets and sizes of a topic's partitions."""
    opened = await describe_topic(context.broker.topics, context.caller, context.topic)
    leader = context.broker.core.options.node_id
    return Partitions([_partition(index, leader, each) for index, each in enumerate(opened.partitions)])


def _partition(index: int, leader: int, found: OwnedPartition | GoQueueError) -> Partition:
    if isinstance(found, GoQueueError):
        return Partition(index, leader, error=error_of(found))
    log = found.log
    return Partition(
        partition=index,
        leader=leader,
        leader_epoch=found.leader_epoch,
        start_offset=log.start_offset,
        end_offset=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
        log_end_offset=log.end_offset,
        size_bytes=log.size_bytes,
        segments=log.segment_count,
        error=error_of(LogOffline(log.fault)) if log.fault else UNSET,
    )


def _told(topic: CatalogTopic) -> Topic:
    return Topic(
        name=topic.name,
        id=str(topic.id),
        partitions=topic.partitions,
        is_internal=topic.is_internal,
        created_at=moment(topic.created_ms),
        config=dict(topic.config),
    )


def _described(context: Context, topic: CatalogTopic) -> Topic:
    told = _told(topic)
    told.settings = _settings(context.broker.topics.settings_of(topic), topic.config)
    return told


def _settings(settings: TopicSettings, own: Mapping[str, str]) -> list[Setting]:
    return [Setting(each.name, each.read(settings), each.source(settings, own)) for each in TABLE.values()]


def _texts(config: Mapping[str, Value]) -> dict[str, str]:
    return {name: str(value) for name, value in config.items()}
