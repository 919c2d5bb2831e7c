"""Requests and replies about topics."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import NAME_SCHEMA
from goqueue.api.problems import MessageError
from goqueue.model.topic import PARTITIONS_MAX
from goqueue.model.topic_settings import SettingSource

# What these promise is checked by the operations, whose errors say more.
_Name = Annotated[str, Meta(description="The name of the topic.", extra_json_schema=NAME_SCHEMA)]
_Count = Annotated[
    int, Meta(description="The number of partitions.", extra_json_schema={"minimum": 1, "maximum": PARTITIONS_MAX})
]
Value = str | int | float


class NewTopic(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to make; without a number of partitions it gets the broker's default."""

    name: _Name
    partitions: _Count | None = None
    replication: Annotated[
        int, Meta(description="On how many brokers; there is one.", extra_json_schema={"const": 1})
    ] = 1
    config: Annotated[dict[str, Value], Meta(description="Settings of the topic, under Kafka's names.")] = {}


class TopicChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of a topic; what is not named stays."""

    partitions: _Count | UnsetType = UNSET
    config: Annotated[dict[str, Value | None], Meta(description="null takes a setting back to its default.")] = {}


class Setting(msgspec.Struct):
    """The value of a setting, and where it comes from."""

    name: str
    value: str
    source: SettingSource


class Topic(msgspec.Struct):
    """A topic; `config` has its own settings, `settings` all of them where one topic is described."""

    name: str
    id: str
    partitions: int
    is_internal: bool
    created_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    config: dict[str, str]
    settings: list[Setting] | UnsetType = UNSET


class TopicsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which topics are listed."""

    internal: Annotated[bool, Meta(description="Also the broker's own topics, which nobody else writes to.")] = False


class Topics(msgspec.Struct):
    """All topics in use, in the order of their names."""

    topics: list[Topic]


class Partition(msgspec.Struct):
    """A partition; one whose log cannot be opened has an error and no offsets. Readers see up to `end_offset`."""

    partition: int
    leader: int
    leader_epoch: int | UnsetType = UNSET
    start_offset: int | UnsetType = UNSET
    end_offset: int | UnsetType = UNSET
    last_stable_offset: int | UnsetType = UNSET
    log_end_offset: int | UnsetType = UNSET
    size_bytes: int | UnsetType = UNSET
    segments: int | UnsetType = UNSET
    error: MessageError | UnsetType = UNSET


class Partitions(msgspec.Struct):
    """The partitions of a topic, in order."""

    partitions: list[Partition]
