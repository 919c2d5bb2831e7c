"""A transactional id with its transaction, and what is asked of it. All values are frozen."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

import msgspec
from typing_extensions import override

from goqueue.model.topic import TopicPartition

EPOCH_MAX = 32_766
"""The last epoch that a producer may be given. There is one more, which only ever fences."""

TIMEOUT_MIN_MS = 1
TIMEOUT_MAX_MS = 15 * 60 * 1000
IDLE_MS = 7 * 24 * 60 * 60 * 1000
"""For how long a transactional id is remembered without a transaction."""

GROUPS_MAX = 100
"""How many groups one transaction may set offsets of: all of them are stored again with each that is added."""

WAITING_ENDS_MAX = 8
"""How many repetitions of one request to end a transaction may wait for its end; the oldest is let go first."""


class ProducerEpoch(NamedTuple):
    """Who acts: a producer id, and which of its holders in turn."""

    producer_id: int
    epoch: int


class TransactionState(StrEnum):
    """Where a transaction stands, in Kafka's words."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class EndCause(StrEnum):
    """Why a transaction ends: its producer asks for it, or something happens over its head."""

    COMMIT = "commit"
    ABORT = "abort"
    INIT = "init"
    TIMEOUT = "timeout"
    OPERATOR = "operator"


_COMMITTED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT})
_ENDING = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_IN_USE = frozenset({TransactionState.EMPTY, TransactionState.ONGOING})


@dataclass(frozen=True, slots=True)
class Init:
    """A producer wants to act under a transactional id.

    `known` is the identity that it has had, if it wants to go on; without, it takes over from whoever was there.
    The spare producer id is used if the epochs of the present one are used up, or if there is none.
    """

    id: str
    timeout_ms: int
    spare_producer_id: int
    known: ProducerEpoch | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """The transaction is going to write to partitions; the first ones begin it."""

    id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """The transaction is going to set offsets of a group, which may begin it."""

    id: str
    producer_id: int
    epoch: int
    group: str


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort; with `bumps_epoch`, the producer goes on with a new identity, which is the answer."""

    id: str
    producer_id: int
    epoch: int
    _: KW_ONLY
    is_commit: bool
    bumps_epoch: bool
    spare_producer_id: int


@dataclass(frozen=True, slots=True)
class Complete:
    """All markers of an `Ending` are durable."""

    id: str
    producer_id: int
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class Abort:
    """An operator aborts whatever transaction is under way."""

    id: str


@dataclass(frozen=True, slots=True)
class Expire:
    """The time of a transaction may be over."""

    id: str


@dataclass(frozen=True, slots=True)
class Forget:
    """A transactional id may have been idle for too long."""

    id: str


class SinkStage(NamedTuple):
    """A transaction that is to be committed with others, and who has written it."""

    id: str
    producer_id: int
    epoch: int

    @property
    def identity(self) -> ProducerEpoch:
        """Who has written it."""
        return ProducerEpoch(self.producer_id, self.epoch)


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """A sink commits what was staged for a batch; `id` is the key of the sink (`model.sinks`)."""

    id: str
    batch: int
    stages: tuple[SinkStage, ...]


@dataclass(frozen=True, slots=True)
class ForgetSink:
    """Somebody wants a sink to begin anew; `id` is its key."""

    id: str


TransactionCommand = Init | AddPartitions | AddOffsets | EndTransaction | Complete | Abort | Expire | Forget
Command = TransactionCommand | CommitBatch | ForgetSink


class WaitingInit(NamedTuple):
    """An Init that is carried out when the transaction before has ended."""

    ticket: int
    command: Init


class Transaction(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A transactional id and its present or last transaction.

    `number` counts its transactions. `previous` is the identity whose holder may be waiting for a reply that makes it
    the present one: it may ask again. `next` is the identity after the end, if it is not the present one. Moments are
    wall time except for `deadline_ms`, when the transaction is aborted or the id forgotten; `started_ms` is -1 before
    the first transaction of a producer.
    """

    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    previous: ProducerEpoch | None = None
    next: ProducerEpoch | None = None
    partitions: frozenset[TopicPartition] = frozenset()
    groups: frozenset[str] = frozenset()
    number: int = 0
    started_ms: int = -1
    updated_ms: int = 0
    # volatile
    deadline_ms: int | None = None
    waiting_ends: tuple[int, ...] = ()
    waiting_init: WaitingInit | None = None

    @override
    def __eq__(self, other: object) -> bool:
        """Tell whether the same would be stored."""
        return isinstance(other, Transaction) and _stored(self) == _stored(other)

    @override
    def __hash__(self) -> int:
        return hash(_stored(self))

    @property
    def identity(self) -> ProducerEpoch:
        """The present identity; while the transaction ends, the one that its markers carry."""
        return ProducerEpoch(self.producer_id, self.epoch)

    @property
    def is_ongoing(self) -> bool:
        """Whether a transaction is under way, and it is open how it ends."""
        return self.state is TransactionState.ONGOING

    @property
    def is_ending(self) -> bool:
        """Whether it is decided how the transaction ends, but not all markers are known to be durable."""
        return self.state in _ENDING

    @property
    def is_committed(self) -> bool:
        """Whether the last transaction was committed, be it with all markers or not."""
        return self.state in _COMMITTED

    @property
    def holder(self) -> ProducerEpoch | None:
        """The present identity, if it is anybody's.

        It is nobody's after an abort over the producer's head, and as long as nobody is told of it: while the
        transaction ends, if that raised the epoch.
        """
        if self.state in _IN_USE:
            return self.identity
        is_nobodys = self.previous != self.identity if self.is_ending else self.previous is None
        return None if is_nobodys else self.identity


_VOLATILE = frozenset({"deadline_ms", "waiting_ends", "waiting_init"})
_stored = attrgetter(*(name for name in Transaction.__struct_fields__ if name not in _VOLATILE))


@dataclass(frozen=True, slots=True)
class Ending:
    """What has to be done to end a transaction: a marker for each partition, and the offsets of each group."""

    id: str
    producer_id: int
    epoch: int
    number: int
    _: KW_ONLY
    is_commit: bool
    partitions: frozenset[TopicPartition]
    groups: frozenset[str]

    @property
    def completion(self) -> Complete:
        """The command that says that it is done."""
        return Complete(self.id, self.producer_id, self.epoch, self.number)
