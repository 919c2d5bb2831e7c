"""Operations on topics: make, change, grow, delete; each is durable when it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from goqueue.broker.admission import Caller, operation
from goqueue.broker.events import TopicChanged, TopicCreated, TopicDeleted
from goqueue.errors import (
    Draining,
    GoQueueError,
    InvalidPartitions,
    InvalidReplication,
    PolicyViolation,
    TopicExists,
    TopicProtected,
)
from goqueue.machines.catalog import AlterTopic, CreateTopic, DeleteTopic, GrowTopic
from goqueue.model.topic import Topic, check_name, is_internal
from goqueue.model.topic_settings import parse
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.presence import Presence
    from goqueue.broker.topics.open_topic import OpenTopic
    from goqueue.broker.topics.service import TopicService


CREATED_ON_DEMAND_MAX = 100
"""How many missing topics one request may make by naming them; the next request goes on."""

_FOUND_AT_ONCE = 256


@operation("topics.create", on="topic", writes=True)
async def create_topic(
    topics: TopicService,
    caller: Caller,
    name: str,
    *,
    partitions: int | None = None,
    replication: int = 1,
    config: Mapping[str, str] | None = None,
    is_dry_run: bool = False,
) -> Topic:
    """Make a topic that can be used at return; without a number of partitions it gets the broker's default."""
    if is_internal(name):
        raise TopicProtected(f"{name!r} cannot be made by a client", hint="names with __ in front are the broker's own")
    return await _create(topics, name, partitions, replication, config or {}, is_dry_run=is_dry_run)


async def _create(
    topics: TopicService,
    name: str,
    partitions: int | None,
    replication: int,
    config: Mapping[str, str],
    *,
    is_dry_run: bool,
) -> Topic:
    count = topics.core.options.default_partitions if partitions is None else partitions
    if replication not in {-1, 1}:
        raise InvalidReplication(f"{replication} replicas were asked for, but there is one broker", hint="ask for 1")
    parse(config, topics.core.options.topic_defaults)
    command = CreateTopic(name, topics.core.entropy.uuid(), count, config, topics.core.clock.now_ms())
    if is_dry_run:
        topics.catalog.plan(command)
        _require_room_for(topics, count)
        return Topic(name=name, id=command.id, partitions=count, created_ms=command.now_ms, config=config)
    async with topics.creations:
        if topics.admission.is_draining:
            raise Draining("the broker is about to stop", hint="try again; another one may take its place")
        return await topics.core.tasks.in_turn(_turn(name), partial(_make, topics, command))


async def _make(topics: TopicService, command: CreateTopic) -> Topic:
    topics.catalog.plan(command)
    _require_room_for(topics, command.partitions)
    topics.require_no_files(command.name, range(command.partitions))
    await topics.submit(command)
    topic = topics.catalog.topic(command.name)
    await topics.open([topic])
    fault = next((each for each in topics.topic(topic.name).partitions if isinstance(each, GoQueueError)), None)
    if fault is not None:
        # A topic that never worked is not kept; nothing is in it.
        await _remove(topics, topic.name)
        raise fault
    topics.core.sink.emit(TopicCreated(topic.name, topic.partitions))
    return topic


@operation("topics.find", on="topic")
async def find_topics(
    topics: TopicService,
    caller: Caller,
    wanted: Sequence[str | UUID] | None,
    *,
    may_create: bool = False,
    presence: Presence | None = None,
) -> Sequence[OpenTopic | GoQueueError]:
    """Return topics by name or id, or why there is none; all of them for None, in order of their names.

    Makes at most `CREATED_ON_DEMAND_MAX` topics, and none after the caller has left (`presence`) or the broker drains;
    the others are unknown until the caller asks again.
    """
    if wanted is None:
        return [topics.by_name[name] for name in sorted(topics.by_name)]
    found: list[OpenTopic | GoQueueError] = []
    left = CREATED_ON_DEMAND_MAX if may_create else 0
    for each in wanted:
        if topics.admission.is_draining or (presence is not None and presence.is_over):
            left = 0
        is_missing = isinstance(each, str) and each not in topics.by_name
        if is_missing or (len(found) + 1) % _FOUND_AT_ONCE == 0:
            await turns(1)
        found.append(await _find(topics, each, may_create=left > 0))
        left -= is_missing
    return found


async def _find(topics: TopicService, wanted: str | UUID, *, may_create: bool) -> OpenTopic | GoQueueError:
    try:
        if isinstance(wanted, UUID):
            return topics.topic_by_id(wanted)
        return topics.by_name.get(wanted) or await _ensure(topics, wanted, may_create=may_create)
    except GoQueueError as error:
        return error.without_frames()


@operation("topics.create_on_demand", on="topic")
async def ensure_topic(topics: TopicService, caller: Caller, name: str) -> OpenTopic:
    """Return a topic, making it with defaults if the broker is allowed to; UnknownTopic if it is not."""
    return topics.by_name.get(name) or await _ensure(topics, name, may_create=True)


async def _ensure(topics: TopicService, name: str, *, may_create: bool) -> OpenTopic:
    check_name(name)
    if not may_create or not topics.core.options.auto_create_topics or is_internal(name):
        return topics.topic(name)
    topics.admission.require_room()
    # Another caller may be faster; then it exists by now.
    with suppress(TopicExists):
        await _create(topics, name, None, 1, {}, is_dry_run=False)
    return topics.topic(name)


async def ensure_internal_topic(topics: TopicService, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Make a topic that holds the broker's own state, unless it is there."""
    if name not in topics.by_name:
        topics.admission.require_room()
        with suppress(TopicExists):
            await _create(topics, name, partitions, 1, config, is_dry_run=False)


@operation("topics.grow", on="topic", writes=True)
async def grow_topic(
    topics: TopicService,
    caller: Caller,
    name: str,
    partitions: int,
    *,
    is_dry_run: bool = False,
) -> Topic:
    """Give a topic more partitions, which can be used at return."""
    _refuse_internal(name)
    command = GrowTopic(name, partitions)
    if is_dry_run:
        topics.catalog.plan(command)
        return topics.catalog.topic(name)
    return await topics.core.tasks.in_turn(_turn(name), partial(_grow, topics, command))


async def _grow(topics: TopicService, command: GrowTopic) -> Topic:
    topics.catalog.plan(command)
    first = topics.catalog.topic(command.name).partitions
    _require_room_for(topics, command.partitions - first)
    topics.require_no_files(command.name, range(first, command.partitions))
    await topics.submit(command)
    topic = topics.catalog.topic(command.name)
    await topics.open([topic])
    for partition in topics.topic(topic.name).partitions[first:]:
        if isinstance(partition, GoQueueError):
            raise partition
    topics.core.sink.emit(TopicChanged(topic.name, f"{topic.partitions} partitions"))
    return topic


@operation("topics.alter", on="topic")
async def alter_topic(
    topics: TopicService,
    caller: Caller,
    name: str,
    edit: Callable[[OpenTopic], Mapping[str, str]],
    *,
    is_dry_run: bool = False,
) -> Topic:
    """Give a topic the settings of its own that `edit` makes of those it has; it is asked when no other change runs."""
    _refuse_internal(name)
    return await topics.core.tasks.in_turn(_turn(name), partial(_alter, topics, name, edit, is_dry_run=is_dry_run))


async def _alter(
    topics: TopicService, name: str, edit: Callable[[OpenTopic], Mapping[str, str]], *, is_dry_run: bool
) -> Topic:
    opened = topics.topic(name)
    config = edit(opened)
    settings = parse(config, topics.core.options.topic_defaults)
    if is_dry_run:
        return opened.topic
    await topics.submit(AlterTopic(name, config))
    opened.topic = topics.catalog.topic(name)
    opened.settings = settings
    for partition in opened.partitions:
        if isinstance(partition, Partition):
            partition.configure(settings)
    topics.core.sink.emit(TopicChanged(name, "settings"))
    return opened.topic


@operation("topics.delete", on="topic")
async def delete_topic(topics: TopicService, caller: Caller, wanted: str | UUID) -> None:
    """Delete a topic, named or by its id, with all its records; at return its name is free."""
    opened = topics.topic_by_id(wanted) if isinstance(wanted, UUID) else topics.topic(wanted)
    name = opened.topic.name
    _refuse_internal(name)
    await topics.core.tasks.in_turn(_turn(name), partial(_remove, topics, wanted))


async def _remove(topics: TopicService, wanted: str | UUID) -> None:
    # Looked up when it is its turn: by then the name may belong to another topic, whose id was not asked for.
    topic = (topics.topic_by_id(wanted) if isinstance(wanted, UUID) else topics.topic(wanted)).topic
    await topics.submit(DeleteTopic(topic.name))
    await topics.close_topic(topic.name)
    await topics.finish_removal(topic)
    topics.core.sink.emit(TopicDeleted(topic.name))


@operation("topics.describe", on="topic")
async def describe_topic(topics: TopicService, caller: Caller, name: str) -> OpenTopic:
    """Return one topic; UnknownTopic if there is none."""
    return topics.topic(name)


@operation("records.delete", on="topic")
async def delete_records(topics: TopicService, caller: Caller, name: str, index: int, offset: int) -> int:
    """Delete the records of a partition before an offset (-1: all of them); return the new first offset."""
    opened = topics.topic(name)
    partition = opened.partition(index)
    _refuse_internal(name)
    require_deletes(opened)
    return await partition.delete_before(offset)


def require_deletes(opened: OpenTopic) -> None:
    """Raise PolicyViolation if a topic is compacted only."""
    if not opened.settings.log.deletes:
        message = f"topic {opened.topic.name!r} is compacted, so its records do not go by age or offset"
        raise PolicyViolation(message, hint="cleanup.policy")


def _turn(name: str) -> str:
    """Return what changes of a topic are queued under: one at a time, in the order in which they came."""
    return f"change of topic {name}"


def _refuse_internal(name: str) -> None:
    if is_internal(name):
        raise TopicProtected(f"{name!r} holds the broker's own state and cannot be changed")


def _require_room_for(topics: TopicService, count: int) -> None:
    total = topics.catalog.partitions
    if total + max(count, 0) > topics.core.options.partitions_max:
        raise InvalidPartitions(
            f"{count} more partitions would exceed this broker's {topics.core.options.partitions_max}",
            hint=f"it has {total}",
        )
