"""Calls about topics: make, list, describe, change, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.client.calls import Call, Reply, read_nothing, reading, topic_path
from goqueue.client.problems import Problem


class TopicSetting(msgspec.Struct, frozen=True):
    """A setting of a topic as it is: its value as text, and whether it is the topic's own or comes from elsewhere."""

    name: str
    value: str
    source: str


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic; `config` has its own settings, `settings` all of them where one topic was asked for."""

    name: str
    id: str
    partitions: int
    created_at: str
    is_internal: bool = False
    config: dict[str, str] = {}
    settings: tuple[TopicSetting, ...] = ()


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition; readers see offsets from `start_offset` up to, but not including, `end_offset`."""

    partition: int
    leader: int = -1
    leader_epoch: int = -1
    start_offset: int = 0
    end_offset: int = 0
    last_stable_offset: int = 0
    log_end_offset: int = 0
    size_bytes: int = 0
    segments: int = 0
    error: Problem | None = None

    @property
    def messages(self) -> int:
        """How many offsets readers see; compaction and transactions may have left fewer messages."""
        return self.end_offset - self.start_offset


class _Topics(msgspec.Struct):
    topics: list[Topic]


class _Partitions(msgspec.Struct):
    partitions: list[Partition]


_read_topic = reading(Topic)
_read_topics = reading(_Topics)
_read_partitions = reading(_Partitions)


def create(name: str, *, partitions: int | None = None, config: Mapping[str, str] | None = None) -> Call[Topic]:
    """Make a topic; without a number of partitions it gets the broker's default."""
    body: dict[str, object] = {"name": name}
    if partitions is not None:
        body["partitions"] = partitions
    if config:
        body["config"] = dict(config)
    return Call("POST", "/v1/topics", _read_topic, body=msgspec.json.encode(body))


def list_all(*, with_internal: bool = False) -> Call[Sequence[Topic]]:
    """List all topics, in order of their names; the broker's own ones only if asked for."""

    def read(reply: Reply) -> Sequence[Topic]:
        return _read_topics(reply).topics

    return Call("GET", "/v1/topics", read, query={"internal": "true"} if with_internal else {})


def describe(name: str) -> Call[Topic]:
    """Describe one topic with all its settings."""
    return Call("GET", topic_path(name), _read_topic)


def alter(name: str, *, partitions: int | None = None, config: Mapping[str, str | None] | None = None) -> Call[Topic]:
    """Change what is named and nothing else; a setting that is None goes back to the broker's default."""
    body: dict[str, object] = {}
    if partitions is not None:
        body["partitions"] = partitions
    if config:
        body["config"] = dict(config)
    return Call("PATCH", topic_path(name), _read_topic, body=msgspec.json.encode(body))


def delete(name: str) -> Call[None]:
    """Delete a topic with all its messages."""
    return Call("DELETE", topic_path(name), read_nothing)


def partitions(name: str) -> Call[Sequence[Partition]]:
    """Describe the partitions of a topic."""

    def read(reply: Reply) -> Sequence[Partition]:
        return _read_partitions(reply).partitions

    return Call("GET", topic_path(name, "partitions"), read)
