"""The settings of a topic under Kafka's names, and what they mean to its logs.

A topic stores only what its owner has set; everything else comes from the broker's defaults when it is needed, so a
new default reaches old topics. `TABLE` is the one list of settings: parsing, describing and documentation use it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import NamedTuple

from goqueue.errors import Invalid, InvalidTopicSettings
from goqueue.model.log_settings import Cleanup, FlushPolicy, LogSettings
from goqueue.model.near_names import near_name
from goqueue.model.units import quoted

UNLIMITED = -1
_INT64_MAX = 2**63 - 1
_PATH_CHARACTERS_MAX = 1024
# A request may have any number of settings that do not exist.
_SUGGESTIONS_MAX = 10


class Stamp(StrEnum):
    """Whose clock stamps the records: that of their producer, or the broker's when it appends them."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class Compression(StrEnum):
    """Batches are kept as their producer compressed them; nothing else is offered."""

    PRODUCER = "producer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """All settings of one topic, with defaults filled in; `hold_bytes` is 0 if nothing is held back, or UNLIMITED."""

    log: LogSettings = field(default_factory=LogSettings)
    stamp: Stamp = Stamp.CREATE_TIME
    compression: Compression = Compression.PRODUCER
    timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1
    hold_bytes: int = 0
    hold_ms: int = 24 * 3_600_000
    archive_path: str = ""

    def __post_init__(self) -> None:
        if len(self.archive_path) > _PATH_CHARACTERS_MAX or not self.archive_path.isprintable():
            raise Invalid(f"goqueue.archive.path is no path of at most {_PATH_CHARACTERS_MAX} printable characters")
        if not 1 <= self.min_insync_replicas <= 1000:
            raise Invalid(f"min.insync.replicas is {self.min_insync_replicas}, but must lie between 1 and 1000")
        if self.timestamp_after_max_ms < 0:
            raise Invalid(f"message.timestamp.after.max.ms is {self.timestamp_after_max_ms}, but cannot be negative")
        for name, value, low in (("bytes", self.hold_bytes, UNLIMITED), ("ms", self.hold_ms, 0)):
            if not low <= value <= _INT64_MAX:
                raise Invalid(f"goqueue.retention.hold.{name} is {value}, but must lie between {low} and {_INT64_MAX}")


class SettingSource(StrEnum):
    """Where the value of a setting comes from: set for the topic, set for the broker, or neither."""

    TOPIC = "topic"
    BROKER = "broker"
    DEFAULT = "default"


class TopicSetting(NamedTuple):
    """One setting: its name for users, where its value lies, what kind of value it is, and what it does."""

    name: str
    attribute: str
    kind: type
    description: str

    def read(self, settings: TopicSettings) -> str:
        """Return the value as text, as Kafka's tools write it."""
        value = getattr(settings.log if _is_of_log(self) else settings, self.attribute)
        return str(value.value) if isinstance(value, Enum) else str(value)

    def source(self, settings: TopicSettings, own: Container[str]) -> SettingSource:
        """Tell where the value comes from; `own` are the names of what was set for this topic."""
        if self.name in own:
            return SettingSource.TOPIC
        return SettingSource.DEFAULT if self.read(settings) == self.read(_DEFAULTS) else SettingSource.BROKER

    @property
    def choices(self) -> list[str]:
        """The values that it can have, if they can be listed."""
        return [str(member.value) for member in self.kind] if issubclass(self.kind, Enum) else []


_DEFAULTS = TopicSettings()
_TOPIC_ATTRIBUTES = frozenset(
    {"stamp", "compression", "min_insync_replicas", "timestamp_after_max_ms", "hold_bytes", "hold_ms", "archive_path"}
)

TABLE: Mapping[str, TopicSetting] = {
    setting.name: setting
    for setting in (
        TopicSetting("cleanup.policy", "cleanup", Cleanup, "Old records are deleted, compacted by key, or both."),
        TopicSetting(
            "compression.type", "compression", Compression, "Batches stay compressed as their producer sent them."
        ),
        TopicSetting("delete.retention.ms", "delete_retention_ms", int, "How long a compacted topic keeps tombstones."),
        TopicSetting(
            "goqueue.archive.path",
            "archive_path",
            str,
            "Where `goqueue job archive` keeps the topic: Spark reads from there what the log has not any more.",
        ),
        TopicSetting(
            "goqueue.flush",
            "flush",
            FlushPolicy,
            "group: replies to acks=all wait for an fsync, and a power loss costs nothing that was acknowledged so; "
            "interval: nothing waits, and a power loss costs what was written since the last fsync.",
        ),
        TopicSetting(
            "goqueue.flush.interval.ms",
            "flush_interval_ms",
            int,
            "With goqueue.flush=interval, the longest time between a write and its fsync.",
        ),
        TopicSetting(
            "goqueue.retention.hold.bytes",
            "hold_bytes",
            int,
            "How many bytes of the topic are kept beyond retention because groups have not read them; 0 for none, -1 "
            "for any number.",
        ),
        TopicSetting(
            "goqueue.retention.hold.ms",
            "hold_ms",
            int,
            "Groups without members that have committed nothing for this time hold nothing back.",
        ),
        TopicSetting(
            "index.interval.bytes", "index_interval_bytes", int, "One row of the index for so many bytes of log."
        ),
        TopicSetting(
            "max.compaction.lag.ms", "max_compaction_lag_ms", int, "Records older than this are always compacted."
        ),
        TopicSetting(
            "max.message.bytes", "max_message_bytes", int, "The largest batch that is accepted, as it is sent."
        ),
        TopicSetting(
            "message.timestamp.after.max.ms",
            "timestamp_after_max_ms",
            int,
            "Records that their producer stamped further ahead of the broker's clock are refused.",
        ),
        TopicSetting("message.timestamp.type", "stamp", Stamp, "Whose clock stamps the records: producer or broker."),
        TopicSetting(
            "min.cleanable.dirty.ratio",
            "min_cleanable_dirty_ratio",
            float,
            "Compaction runs when this part of the log is new since the last pass.",
        ),
        TopicSetting(
            "min.compaction.lag.ms", "min_compaction_lag_ms", int, "Records younger than this are not compacted."
        ),
        TopicSetting(
            "min.insync.replicas", "min_insync_replicas", int, "acks=all needs so many replicas that are in sync."
        ),
        TopicSetting(
            "retention.bytes", "retention_bytes", int, "A partition larger than this loses its oldest segments."
        ),
        TopicSetting("retention.ms", "retention_ms", int, "Segments whose records are older than this are deleted."),
        TopicSetting("segment.bytes", "segment_bytes", int, "A segment of a partition grows up to this size."),
        TopicSetting("segment.ms", "segment_ms", int, "A segment older than this is sealed even if it is not full."),
    )
}


def parse(config: Mapping[str, str], defaults: TopicSettings) -> TopicSettings:
    """Return a topic's settings: its own on top of the defaults; InvalidTopicSettings names all faults."""
    faults: list[str] = []
    log_changes: dict[str, object] = {}
    changes: dict[str, object] = {}
    for name, text in config.items():
        setting = TABLE.get(name)
        if setting is None:
            faults.append(unknown_setting(name) if len(faults) < _SUGGESTIONS_MAX else _is_unknown(name))
            continue
        value, fault = _parse_value(setting, text)
        if fault:
            faults.append(fault)
        else:
            (log_changes if _is_of_log(setting) else changes)[setting.attribute] = value
    try:
        log = replace(defaults.log, **log_changes)  # type: ignore[arg-type]
        settings = replace(defaults, log=log, **changes)  # type: ignore[arg-type]
    except Invalid as error:
        faults.append(error.message)
    if faults:
        raise InvalidTopicSettings("; ".join(faults))
    return settings


def _parse_value(setting: TopicSetting, text: str) -> tuple[object, str]:
    if setting.name == "cleanup.policy":
        # Kafka takes the two policies in any order, with spaces.
        text = ",".join(sorted({part.strip() for part in text.split(",")}))
    if setting.kind is str:
        return text.strip(), ""
    try:
        if not setting.choices and ("_" in text or not text.isascii()):
            raise ValueError("Python would take it for a number, nobody else does")
        return setting.kind(text.strip()), ""
    except ValueError:
        allowed = " or ".join(setting.choices) or ("a whole number" if setting.kind is int else "a number")
        return None, f"{setting.name} is {text!r}, but must be {allowed}"


def unknown_setting(name: str) -> str:
    """Say that there is no setting of that name, and which one is similar."""
    near = near_name(name, TABLE)
    return f"{_is_unknown(name)}; did you mean {near}?" if near else _is_unknown(name)


def _is_unknown(name: str) -> str:
    return f"{quoted(name)} is no setting of a topic"


def _is_of_log(setting: TopicSetting) -> bool:
    return setting.attribute not in _TOPIC_ATTRIBUTES
