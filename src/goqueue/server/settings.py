"""The settings of a server: every one with its type, default, bounds and description.

`Settings` is the one list; flags, environment variables, the keys of the TOML file, `goqueue config show` and the
documentation follow from it through `SETTINGS`. `settings_sources` finds the values.

Every `Settings` object is valid: each value is within its bounds, and no two contradict. Names end with the unit, so a
number without one is in that unit. Settings that begin with `default_` apply to topics that do not set them.
"""

# ruff: noqa: RUF009 - the calls behind the fields of `Settings` make field specifiers, not values

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from goqueue.errors import InvalidSettings, SettingMistake
from goqueue.model.broker_options import BrokerOptions
from goqueue.model.log_settings import Cleanup, FlushPolicy, LogSettings
from goqueue.model.topic import PARTITIONS_MAX
from goqueue.model.topic_settings import TABLE as TOPIC_SETTINGS
from goqueue.server.settings_kinds import (
    Kind,
    byte_size,
    choice,
    directory,
    duration,
    fraction,
    host_names,
    is_loopback,
    listen_address,
    port,
    reachable_host,
    switch,
    web_origins,
    whole,
)

T = TypeVar("T")

_SECOND_MS = 1000
_DAY_MS = 86_400_000
_KIB = 1024
_MIB = 1024 * 1024
_INT32_MAX = 2**31 - 1
_PORTS = ("kafka_port", "http_port", "grpc_port")
_TOPIC_DEFAULTS = LogSettings()
_GROUPS = BrokerOptions()


class LogLevel(StrEnum):
    """How much the server writes to its own log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Group(Enum):
    """Which settings belong together: a table of the TOML file (the first has none), and a panel of the help."""

    SERVER = ""
    TOPICS = "topics"
    LIMITS = "limits"


class Setting(NamedTuple):
    """One setting."""

    name: str
    default: Any
    kind: Kind[Any]
    description: str
    group: Group

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"GOQUEUE_{self.name.upper()}"


def _setting(default: T, kind: Kind[T], description: str, group: Group = Group.SERVER) -> T:
    return field(default=default, metadata={"kind": kind, "description": description, "group": group})


def _limit(default: T, kind: Kind[T], description: str) -> T:
    return _setting(default, kind, description, Group.LIMITS)


def _topic_default(name: str, kind: Kind[T]) -> T:
    """Specify the default of a topic setting; the description is that of the topic setting."""
    setting = TOPIC_SETTINGS[name]
    default: T = getattr(_TOPIC_DEFAULTS, setting.attribute)
    return _setting(default, kind, setting.description, Group.TOPICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a server; InvalidSettings names all mistakes."""

    data_dir: Path = _setting(Path("data"), directory(), "The directory that holds all topics and the broker's state.")
    host: str = _setting("127.0.0.1", listen_address(), "The address that all listeners are bound to.")
    kafka_port: int = _setting(9092, port(), "The port for the Kafka protocol; 0 takes any free one.")
    http_port: int = _setting(8080, port(), "The port for HTTP; 0 takes any free one.")
    grpc_port: int = _setting(9000, port(), "The port for gRPC, on which nothing listens yet.")
    insecure: bool = _setting(
        default=False,
        kind=switch(),
        description="Allow a host that other machines can reach, although there is no authentication.",
    )
    advertised_host: str = _setting(
        "", reachable_host(), "The host that Kafka clients connect to; empty for the one that they used."
    )
    advertised_kafka_port: int = _setting(
        0, port(), "The port that Kafka clients connect to; 0 for the port of the listener."
    )
    http_hosts: tuple[str, ...] = _setting(
        (),
        host_names(),
        "Names in the Host header that HTTP serves, besides IP addresses, localhost, the machine's name and "
        "advertised_host; * serves all.",
    )
    http_origins: tuple[str, ...] = _setting(
        (), web_origins(), "Origins of web pages that may call the HTTP interface (CORS); * for all."
    )
    node_id: int = _setting(1, whole(0, _INT32_MAX), "The id of this broker in the Kafka protocol.")
    drain_timeout_ms: int = _setting(
        30 * _SECOND_MS, duration(0, _DAY_MS), "How long a stopping server waits for requests under way."
    )
    upkeep_interval_ms: int = _setting(
        _SECOND_MS,
        duration(1, 3600 * _SECOND_MS),
        "How often changed logs are maintained: retention by size, compaction, checkpoints.",
    )
    retention_check_interval_ms: int = _setting(
        60 * _SECOND_MS,
        duration(1),
        "How often expired records and segments are looked for; Kafka's log.retention.check.interval.ms.",
    )
    checkpoint_interval_ms: int = _setting(
        _TOPIC_DEFAULTS.checkpoint_interval_ms,
        duration(1),
        "How often the index of a growing segment is written, which bounds what a start after a kill must read.",
    )
    producer_expiration_ms: int = _setting(
        _TOPIC_DEFAULTS.producer_expiration_ms,
        duration(1),
        "How long an idle idempotent producer is remembered.",
    )
    log_level: LogLevel = _setting(
        LogLevel.INFO, choice(LogLevel, metavar="LEVEL"), "How much the server writes to its own log."
    )

    auto_create_topics: bool = _setting(
        default=True,
        kind=switch(),
        description="Create a missing topic when a client publishes to it, or a Kafka client asks for it "
        "(auto.create.topics.enable).",
        group=Group.TOPICS,
    )
    default_partitions: int = _setting(
        3, whole(1, PARTITIONS_MAX), "How many partitions a new topic has by default.", Group.TOPICS
    )
    default_flush: FlushPolicy = _topic_default("goqueue.flush", choice(FlushPolicy, metavar="WHEN"))
    default_flush_interval_ms: int = _topic_default("goqueue.flush.interval.ms", duration(1))
    default_cleanup: Cleanup = _topic_default("cleanup.policy", choice(Cleanup, metavar="HOW"))
    default_retention_ms: int = _topic_default("retention.ms", duration(0, unlimited=-1))
    default_retention_bytes: int = _topic_default("retention.bytes", byte_size(0, unlimited=-1))
    default_segment_bytes: int = _topic_default("segment.bytes", byte_size(_KIB, _INT32_MAX))
    default_segment_ms: int = _topic_default("segment.ms", duration(1))
    default_max_message_bytes: int = _topic_default("max.message.bytes", byte_size(0, _INT32_MAX))
    default_index_interval_bytes: int = _topic_default("index.interval.bytes", byte_size(0, _INT32_MAX))
    default_delete_retention_ms: int = _topic_default("delete.retention.ms", duration(0))
    default_min_compaction_lag_ms: int = _topic_default("min.compaction.lag.ms", duration(0))
    default_max_compaction_lag_ms: int = _topic_default(
        "max.compaction.lag.ms", duration(1, unlimited=_TOPIC_DEFAULTS.max_compaction_lag_ms)
    )
    default_min_cleanable_dirty_ratio: float = _topic_default("min.cleanable.dirty.ratio", fraction())

    connections_max: int = _limit(10_000, whole(1, 1_000_000), "How many connections all listeners accept together.")
    connections_per_address_max: int = _limit(
        0, whole(0, 1_000_000), "How many connections are accepted from one address; 0 for no limit."
    )
    first_byte_timeout_ms: int = _limit(
        10 * _SECOND_MS, duration(1, 365 * _DAY_MS), "A connection that has sent nothing is closed after this time."
    )
    idle_timeout_ms: int = _limit(
        600 * _SECOND_MS, duration(1, 365 * _DAY_MS), "A connection that has been silent for this time is closed."
    )
    slow_reader_timeout_ms: int = _limit(
        30 * _SECOND_MS,
        duration(1, 365 * _DAY_MS),
        "A connection that does not read its replies is closed after this time.",
    )
    frame_bytes_max: int = _limit(100 * _MIB, byte_size(_KIB, _INT32_MAX), "The largest request of the Kafka protocol.")
    request_elements_max: int = _limit(
        100_000, whole(1, _INT32_MAX), "How many topics, partitions and other elements one Kafka request may list."
    )
    reply_buffer_bytes_max: int = _limit(
        8 * _MIB, byte_size(_KIB, _INT32_MAX), "How many bytes of replies a connection may leave unread."
    )
    http_body_bytes_max: int = _limit(24 * _MIB, byte_size(_KIB, _INT32_MAX), "The largest body of an HTTP request.")
    group_min_session_timeout_ms: int = _limit(
        _GROUPS.group_min_session_timeout_ms,
        duration(1, _DAY_MS),
        "The shortest session.timeout.ms that a member of a classic group may ask for.",
    )
    group_max_session_timeout_ms: int = _limit(
        _GROUPS.group_max_session_timeout_ms,
        duration(1, _DAY_MS),
        "The longest session.timeout.ms that a member of a classic group may ask for.",
    )
    disk_guard_free_fraction: float = _limit(
        0.1, fraction(), "Refuse writes when less than this fraction of the disk is free; 0 never refuses."
    )

    def __post_init__(self) -> None:
        misfits = list(_misfits(self))
        wrong = {name for misfit in misfits for name in misfit.names}
        mistakes = misfits + [found for found in _contradictions(self) if wrong.isdisjoint(found.names)]
        if mistakes:
            raise InvalidSettings(mistakes)

    def default_log_settings(self) -> LogSettings:
        """Return the log settings of a topic without settings of its own."""
        of_topics = {
            setting.attribute: getattr(self, f"default_{setting.attribute}")
            for setting in TOPIC_SETTINGS.values()
            if f"default_{setting.attribute}" in SETTINGS
        }
        return LogSettings(
            **of_topics,
            checkpoint_interval_ms=self.checkpoint_interval_ms,
            producer_expiration_ms=self.producer_expiration_ms,
        )


SETTINGS: Mapping[str, Setting] = {
    entry.name: Setting(name=entry.name, default=entry.default, **entry.metadata) for entry in fields(Settings)
}
"""Every setting by its name, in the order in which they are shown."""


def _misfits(settings: Settings) -> Iterator[SettingMistake]:
    for setting in SETTINGS.values():
        value = getattr(settings, setting.name)
        if not setting.kind.accepts(value):
            line = f"{setting.name} is {value!r}, but must be {setting.kind.allowed}"
            yield SettingMistake((setting.name,), line)


def _contradictions(settings: Settings) -> Iterator[SettingMistake]:
    """Yield contradictions between settings that are valid one by one."""
    if not settings.insecure and not is_loopback(settings.host):
        yield SettingMistake(
            ("host", "insecure"),
            f"host is {settings.host}, which other machines can reach, and there is no authentication yet: "
            "listen on 127.0.0.1, or set insecure to allow it",
        )
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
        yield SettingMistake(
            ("group_min_session_timeout_ms", "group_max_session_timeout_ms"),
            f"group_min_session_timeout_ms is {settings.group_min_session_timeout_ms}, which is above "
            f"group_max_session_timeout_ms, {settings.group_max_session_timeout_ms}: no session fits between them",
        )
    names_by_port: dict[int, list[str]] = {}
    for name in _PORTS:
        names_by_port.setdefault(getattr(settings, name), []).append(name)
    for number, names in names_by_port.items():
        if number and len(names) > 1:
            line = f"{' and '.join(names)} are the same, {number}, but each needs its own; 0 takes any free one"
            yield SettingMistake(tuple(names), line)
