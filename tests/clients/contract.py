"""Interface of every Kafka client in the tests: one vocabulary and two protocols, for all libraries.

Owns the words (message, record, place, setting) and what a client cannot do by its own nature; knows no library. An
adapter translates, and hides nothing that the broker said: a refusal of the broker becomes `Refused` with its code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple, Protocol

from goqueue.records.compression import Codec

# How long a client may take for one call; far beyond what a healthy broker needs, so reaching it is a failure.
DEADLINE_S = 60.0

Headers = tuple[tuple[str, bytes | None], ...]


class ErrorCode(IntEnum):
    """The errors of the Kafka protocol that the tests provoke."""

    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    MESSAGE_TOO_LARGE = 10
    INVALID_TOPIC_EXCEPTION = 17
    UNKNOWN_MEMBER_ID = 25
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_CONFIG = 40
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69


class Refused(Exception):
    """The broker refused what a client asked for, with this code of the Kafka protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Acks(StrEnum):
    """Acknowledgement of a write: none, by the leader, or by all in-sync replicas."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Edge(Enum):
    """An end of a partition."""

    BEGINNING = "beginning"
    END = "end"


class Reset(StrEnum):
    """Reaction of a reader to an offset that does not exist."""

    EARLIEST = "earliest"
    LATEST = "latest"
    ERROR = "error"


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Message:
    """A record to write. Without a partition the client's partitioner decides, without a timestamp its clock."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = 0


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a client reads it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How a producer sends; a client keeps one producer per value of this. It refuses nothing below 4 MiB itself."""

    codec: Codec = Codec.NONE
    acks: Acks = Acks.ALL
    is_idempotent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Where a reader starts, and how it fetches."""

    start: int | Edge = Edge.BEGINNING
    reset: Reset = Reset.ERROR
    wait_ms_max: int = 500
    partition_bytes_max: int = 1024 * 1024


PLAIN = Sending()
FROM_BEGINNING = Reading()


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Features of a client; tests do not ask for those that it lacks."""

    codecs: frozenset[Codec] = frozenset(Codec)
    writes_timestamps: bool = True
    writes_null_header_values: bool = True
    writes_null_key_with_null_value: bool = True

    def can_write(self, message: Message) -> bool:
        """Tell whether the client has a way to express the message."""
        has_null_header = any(value is None for _, value in message.headers)
        is_all_null = message.key is None and message.value is None
        return (
            (self.writes_timestamps or message.timestamp_ms is None)
            and (self.writes_null_header_values or not has_null_header)
            and (self.writes_null_key_with_null_value or not is_all_null)
        )


class Bounds(NamedTuple):
    """The first offset of a partition, and the one after its last record."""

    earliest: int
    latest: int


class Reader(Protocol):
    """A consumer with partitions assigned by hand."""

    def take(self, count: int, within_s: float = DEADLINE_S) -> list[Record]:
        """Return the next records: `count` of them, or those that came in time; Refused if the broker refuses."""
        ...


class Client(Protocol):
    """A client that writes and reads."""

    traits: Traits

    def send(self, topic: str, messages: Sequence[Message], sending: Sending = PLAIN) -> list[int]:
        """Write the messages and return the offsets that the broker told, -1 for those it did not tell."""
        ...

    def reader(self, places: Sequence[Place], reading: Reading = FROM_BEGINNING) -> AbstractContextManager[Reader]:
        """Open a reader of these places."""
        ...

    def bounds(self, place: Place) -> Bounds:
        """Ask for both ends of a partition."""
        ...

    def offset_at(self, place: Place, timestamp_ms: int) -> int | None:
        """Return the first offset whose timestamp is this or later; None if there is none."""
        ...

    def close(self) -> None:
        """End everything that the client started."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int = 1
    replicas: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)


class PartitionView(NamedTuple):
    """Replicas of a partition."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Source(IntEnum):
    """Where the value of a setting comes from, with the protocol's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Setting(NamedTuple):
    """The value of a topic's setting and its source."""

    value: str | None
    source: Source

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT


class ClusterView(NamedTuple):
    """The cluster as a client sees it; nodes by id as `host:port`."""

    controller: int
    nodes: dict[int, str]


class Admin(Protocol):
    """A client that manages topics. Every call may raise Refused."""

    is_incremental: bool

    def create(self, topics: Sequence[NewTopic]) -> None:
        """Create all of the topics in one request; Refused with the code of the first that failed."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete all of the topics in one request."""
        ...

    def grow(self, topic: str, partitions: int) -> None:
        """Let the topic have this many partitions in all."""
        ...

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        ...

    def describe(self, topic: str) -> list[PartitionView]:
        """Return the topic's partitions in order; never creates the topic."""
        ...

    def settings(self, topic: str) -> dict[str, Setting]:
        """Return all settings of the topic, also those at their defaults."""
        ...

    def alter(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set these, and put those with None back to their default; if not incremental, all others as well."""
        ...

    def delete_records(self, place: Place, before: int) -> int:
        """Delete what lies before the offset, and return the first offset that is left."""
        ...

    def cluster(self) -> ClusterView:
        """Describe the cluster."""
        ...

    def close(self) -> None:
        """End everything that the client started."""
        ...
