"""The catalogue: topics with their ids and settings, and the producer ids that are in use.

The state is a fold over keyed records; `decide` reads a command and changes nothing, only `apply` of a stored record
changes the state. Each fact has a key of its own, so the log can be compacted.

| key                | value                                                     | none (tombstone)     |
|--------------------|-----------------------------------------------------------|----------------------|
| `cluster`          | the id of this cluster                                    | never                |
| `clock`            | wall time and monotonic time of one moment, and the boot  | never                |
| `receipt-key`      | the secret key that signs receipts of queue groups        | never                |
| `topic NAME`       | id, partitions, settings, time of creation, is it going   | there is no topic    |
| `producer-ids`     | the first unused producer id                              | never                |

A topic is deleted in two steps, so that its files can never be taken for those of a later topic with its name:

    absent --create--> there --delete--> going --forget--> absent
                         |                 |
                         grow, alter       its name is taken, it cannot be used; its files are being removed
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, assert_never
from uuid import UUID

import msgspec

from goqueue.errors import Corrupt, InvalidPartitions, TopicExists, UnknownTopic
from goqueue.machines.decision import Decision, KeyedRecord, Now, TicketReply
from goqueue.model.topic import PARTITIONS_MAX, Topic, check_name

CLUSTER_KEY = b"cluster"
CLOCK_KEY = b"clock"
RECEIPT_KEY_KEY = b"receipt-key"
PRODUCER_IDS_KEY = b"producer-ids"
_TOPIC_PREFIX = b"topic "
_JUMP_MIN_MS = 1000


class NameCluster(NamedTuple):
    """Set the cluster's id and the key of its receipts, as far as they are missing; both are random."""

    id: UUID
    receipt_key: bytes


class NoteClock(NamedTuple):
    """Store the clocks, unless wall time has advanced as monotonic time has since they were stored."""

    boot_id: str
    wall_ms: int
    monotonic_ms: int


class CreateTopic(NamedTuple):
    """Create a topic."""

    name: str
    id: UUID
    partitions: int
    config: Mapping[str, str]
    now_ms: int


class GrowTopic(NamedTuple):
    """Add partitions to a topic."""

    name: str
    partitions: int


class AlterTopic(NamedTuple):
    """Replace the settings of a topic."""

    name: str
    config: Mapping[str, str]


class DeleteTopic(NamedTuple):
    """Mark a topic as deleted; its files may be removed once this is durable."""

    name: str


class ForgetTopic(NamedTuple):
    """Free the name of a deleted topic whose files were removed."""

    name: str


class TakeProducerIds(NamedTuple):
    """Reserve producer ids; none is ever reserved twice."""

    ids: int


Command = NameCluster | NoteClock | CreateTopic | GrowTopic | AlterTopic | DeleteTopic | ForgetTopic | TakeProducerIds


class _ClusterValue(msgspec.Struct, frozen=True):
    id: UUID


class _ClockValue(msgspec.Struct, frozen=True):
    boot_id: str
    wall_ms: int
    monotonic_ms: int


class _ReceiptKeyValue(msgspec.Struct, frozen=True):
    key: bytes


class _ProducerIdsValue(msgspec.Struct, frozen=True):
    next_id: int


class _TopicValue(msgspec.Struct, frozen=True, omit_defaults=True):
    id: UUID
    partitions: int
    created_ms: int
    config: dict[str, str] = {}
    is_going: bool = False


class Catalog:
    """All topics, the cluster's id and the used producer ids, as of the last applied record."""

    def __init__(self) -> None:
        self.cluster_id: UUID | None = None
        self.receipt_key: bytes | None = None
        self._clock: _ClockValue | None = None
        self.next_producer_id = 0
        self.partitions = 0
        """The number of partitions of all topics together."""
        self._topics: dict[str, Topic] = {}

    @property
    def topics(self) -> Iterable[Topic]:
        """All topics in order of their names, including those that are being deleted."""
        return [self._topics[name] for name in sorted(self._topics)]

    def topic(self, name: str) -> Topic:
        """Return the topic of that name; UnknownTopic if there is none, or if it is being deleted."""
        topic = self._topics.get(name)
        if topic is None or topic.is_going:
            raise UnknownTopic(f"there is no topic {name!r}").about(name)
        return topic

    def wall_jump_ms(self, now: NoteClock) -> int:
        """Return how far the wall clock was set since the clocks were stored; 0 if that is unknown.

        It is known only within one boot of the machine, whose monotonic time runs on between two starts of the broker.
        """
        known = self._clock
        if known is None or not now.boot_id or known.boot_id != now.boot_id or now.monotonic_ms < known.monotonic_ms:
            return 0
        jump_ms = (now.wall_ms - known.wall_ms) - (now.monotonic_ms - known.monotonic_ms)
        # Time servers make clocks run a little faster or slower, which is no jump.
        return jump_ms if abs(jump_ms) >= _JUMP_MIN_MS else 0

    def is_independent(self, command: Command) -> bool:  # noqa: ARG002 - what a shard asks all machines
        """Return False: every command reads what others change."""
        return False

    def decide(self, command: Command, ticket: int, now: Now) -> Decision:
        """Return the decision on a command; raise what forbids it. Without records, nothing changes."""
        del now
        return Decision(self.plan(command), [TicketReply(ticket, None)])

    def adopt(self, decision: Decision) -> None:
        """Apply a decision whose records are stored."""
        for record in decision.records:
            self.apply(record)

    def revive(self, now: Now) -> None:
        """Do nothing: the catalogue has no deadlines."""

    def deadline_ms(self) -> int | None:
        """Return None: the catalogue has no deadlines."""
        return None

    def due(self, now: Now) -> Sequence[Command]:
        """Return nothing: the catalogue has no deadlines."""
        del now
        return ()

    def plan(self, command: Command) -> Sequence[KeyedRecord]:
        """Return the records of a command; raise what forbids it."""
        match command:
            case NameCluster():
                return self._decide_name(command)
            case NoteClock():
                is_known = self._clock is not None and self._clock.boot_id == command.boot_id
                if is_known and not self.wall_jump_ms(command):
                    return []
                return [_record(CLOCK_KEY, _ClockValue(*command))]
            case CreateTopic():
                return [self._decide_create(command)]
            case GrowTopic():
                return [self._decide_grow(command)]
            case AlterTopic():
                return self._decide_alter(command)
            case DeleteTopic():
                return [_topic_record(self.topic(command.name), is_going=True)]
            case ForgetTopic():
                going = self._topics.get(command.name)
                return [KeyedRecord(_topic_key(command.name), None)] if going and going.is_going else []
            case TakeProducerIds():
                return [_record(PRODUCER_IDS_KEY, _ProducerIdsValue(self.next_producer_id + command.ids))]
            case _:
                assert_never(command)

    def _decide_name(self, command: NameCluster) -> Sequence[KeyedRecord]:
        found = [] if self.cluster_id else [_record(CLUSTER_KEY, _ClusterValue(command.id))]
        if not self.receipt_key:
            found.append(_record(RECEIPT_KEY_KEY, _ReceiptKeyValue(command.receipt_key)))
        return found

    def _decide_create(self, command: CreateTopic) -> KeyedRecord:
        check_name(command.name)
        existing = self._topics.get(command.name)
        if existing is not None:
            state = "is being deleted" if existing.is_going else "exists already"
            raise TopicExists(f"topic {command.name!r} {state}")
        _check_partitions(command.partitions)
        return _record(
            _topic_key(command.name),
            _TopicValue(command.id, command.partitions, command.now_ms, dict(command.config)),
        )

    def _decide_grow(self, command: GrowTopic) -> KeyedRecord:
        topic = self.topic(command.name)
        if command.partitions <= topic.partitions:
            raise InvalidPartitions(
                f"topic {topic.name!r} has {topic.partitions} partitions and cannot get {command.partitions}",
                hint="partitions can only be added",
            )
        _check_partitions(command.partitions)
        return _topic_record(topic, partitions=command.partitions)

    def _decide_alter(self, command: AlterTopic) -> Sequence[KeyedRecord]:
        topic = self.topic(command.name)
        return [] if topic.config == command.config else [_topic_record(topic, config=command.config)]

    def apply(self, record: KeyedRecord) -> None:
        """Apply a stored record; Corrupt if it is not a record of the catalogue."""
        try:
            self._apply(record.key, record.value)
        except msgspec.MsgspecError as error:
            raise Corrupt(f"the catalogue has a record {record.key!r} that cannot be read: {error}") from error

    def _apply(self, key: bytes, value: bytes | None) -> None:
        if key.startswith(_TOPIC_PREFIX):
            name = key.removeprefix(_TOPIC_PREFIX).decode("utf-8", "surrogateescape")
            topic = None if value is None else _topic(name, msgspec.json.decode(value, type=_TopicValue))
            before = self._topics.pop(name, None)
            self.partitions -= before.partitions if before is not None else 0
            if topic is not None:
                self._topics[name] = topic
                self.partitions += topic.partitions
        elif key == CLUSTER_KEY and value is not None:
            self.cluster_id = msgspec.json.decode(value, type=_ClusterValue).id
        elif key == CLOCK_KEY and value is not None:
            self._clock = msgspec.json.decode(value, type=_ClockValue)
        elif key == RECEIPT_KEY_KEY and value is not None:
            self.receipt_key = msgspec.json.decode(value, type=_ReceiptKeyValue).key
        elif key == PRODUCER_IDS_KEY and value is not None:
            self.next_producer_id = msgspec.json.decode(value, type=_ProducerIdsValue).next_id
        else:
            raise Corrupt(f"the catalogue has a record {key!r} that this version does not know")

    def records(self) -> list[KeyedRecord]:
        """Return the records from which a new catalogue becomes equal to this one."""
        found = [_topic_record(topic) for topic in self.topics]
        if self.cluster_id:
            found.append(_record(CLUSTER_KEY, _ClusterValue(self.cluster_id)))
        if self._clock:
            found.append(_record(CLOCK_KEY, self._clock))
        if self.receipt_key:
            found.append(_record(RECEIPT_KEY_KEY, _ReceiptKeyValue(self.receipt_key)))
        if self.next_producer_id:
            found.append(_record(PRODUCER_IDS_KEY, _ProducerIdsValue(self.next_producer_id)))
        return found

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        ids = [topic.id for topic in self.topics]
        assert len(ids) == len(set(ids))
        assert self.partitions == sum(topic.partitions for topic in self.topics)
        for topic in self.topics:
            check_name(topic.name)
            assert 1 <= topic.partitions <= PARTITIONS_MAX
        assert self.next_producer_id >= 0


def _check_partitions(count: int) -> None:
    if not 1 <= count <= PARTITIONS_MAX:
        raise InvalidPartitions(f"a topic cannot have {count} partitions", hint=f"1 to {PARTITIONS_MAX}")


def _topic_key(name: str) -> bytes:
    return _TOPIC_PREFIX + name.encode("utf-8", "surrogateescape")


def _topic(name: str, value: _TopicValue) -> Topic:
    return Topic(
        name=name,
        id=value.id,
        partitions=value.partitions,
        created_ms=value.created_ms,
        config=value.config,
        is_going=value.is_going,
    )


def _topic_record(
    topic: Topic,
    *,
    partitions: int | None = None,
    config: Mapping[str, str] | None = None,
    is_going: bool | None = None,
) -> KeyedRecord:
    value = _TopicValue(
        topic.id,
        topic.partitions if partitions is None else partitions,
        topic.created_ms,
        dict(topic.config if config is None else config),
        topic.is_going if is_going is None else is_going,
    )
    return _record(_topic_key(topic.name), value)


def _record(key: bytes, value: msgspec.Struct) -> KeyedRecord:
    return KeyedRecord(key, msgspec.json.encode(value))
