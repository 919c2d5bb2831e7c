"""Requests and replies about topics."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import NAME_SCHEMA
from goqueue.api.problems import MessageError
from goqueue.model.topic import PARTITIONS_MAX
from goqueue.model.topic_settings import SettingSource

# The schemas only describe these; the operations check them, with better errors.
_Name = Annotated[str, Meta(description="The name of the topic.", extra_json_schema=NAME_SCHEMA)]
_Count = Annotated[
    int, Meta(description="The number of partitions.", extra_json_schema={"minimum": 1, "maximum": PARTITIONS_MAX})
]
Value = str | int | float


class NewTopic(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create; `partitions` defaults to the broker's setting."""

    name: _Name
    partitions: _Count | None = None
    replication: Annotated[int, Meta(description="Replication factor; always 1.", extra_json_schema={"const": 1})] = 1
    config: Annotated[dict[str, Value], Meta(description="Settings of the topic, with Kafka's names.")] = {}


class TopicChange(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of a topic; omitted fields and settings stay as they are."""

    partitions: _Count | UnsetType = UNSET
    config: Annotated[dict[str, Value | None], Meta(description="null resets a setting to its default.")] = {}


class Setting(msgspec.Struct):
    """The value of a setting, and its source."""

    name: str
    value: str
    source: SettingSource


class Topic(msgspec.Struct):
    """A topic; `config` has its own settings, `settings` all effective ones, if a single topic was requested."""

    name: str
    id: str
    partitions: int
    is_internal: bool
    created_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    config: dict[str, str]
    settings: list[Setting] | UnsetType = UNSET


class TopicsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which topics to list."""

    internal: Annotated[bool, Meta(description="Include internal topics.")] = False


class Topics(msgspec.Struct):
    """Topics, sorted by name."""

    topics: list[Topic]


class Partition(msgspec.Struct):
    """A partition. Readers see messages before `end_offset`. If the log cannot be opened: an error, and no offsets."""

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
