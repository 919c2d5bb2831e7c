"""Transactional ids, their transactions, and the commands about them. All values are frozen."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

import msgspec
from typing_extensions import override

from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState

EPOCH_MAX = 32_766
"""The last epoch that a producer may get. The one above it only fences."""

TIMEOUT_MIN_MS = 1
TIMEOUT_MAX_MS = 15 * 60 * 1000
IDLE_MS = 7 * 24 * 60 * 60 * 1000
"""How long a transactional id without a transaction is remembered."""

GROUPS_MAX = 100
"""Groups whose offsets one transaction may set: all are stored again with each one that is added."""

WAITING_ENDS_MAX = 8
"""Repetitions of one request to end a transaction that may wait for its end; the oldest is dropped first."""


class ProducerEpoch(NamedTuple):
    """A producer id and its epoch: the identity under which a producer acts."""

    producer_id: int
    epoch: int


class EndCause(StrEnum):
    """Why a transaction ends: by its producer, or without it."""

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
    """Assign a producer to a transactional id.

    `known` is the identity of a producer that continues; without it, the producer takes over from any other. The spare
    producer id is used if the present one has no epochs left, or if there is none.
    """

    id: str
    timeout_ms: int
    spare_producer_id: int
    known: ProducerEpoch | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Add partitions to the transaction; the first ones begin it."""

    id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """Add a group whose offsets the transaction sets, which may begin it."""

    id: str
    producer_id: int
    epoch: int
    group: str


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort; with `bumps_epoch`, the reply is a new identity for the producer."""

    id: str
    producer_id: int
    epoch: int
    _: KW_ONLY
    is_commit: bool
    bumps_epoch: bool
    spare_producer_id: int


@dataclass(frozen=True, slots=True)
class Complete:
    """Report that all markers of an `Ending` are durable."""

    id: str
    producer_id: int
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort the open transaction, at the request of an operator."""

    id: str


@dataclass(frozen=True, slots=True)
class Expire:
    """Abort a transaction if its timeout has passed."""

    id: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget a transactional id if it has been idle for too long."""

    id: str


class SinkStage(NamedTuple):
    """A transaction to commit together with others, and the producer that has written it."""

    id: str
    producer_id: int
    epoch: int

    @property
    def identity(self) -> ProducerEpoch:
        """The producer that has written it."""
        return ProducerEpoch(self.producer_id, self.epoch)


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """Commit the stages of a batch; `id` is the key of the sink (`model.sinks`)."""

    id: str
    batch: int
    stages: tuple[SinkStage, ...]


@dataclass(frozen=True, slots=True)
class ForgetSink:
    """Forget a sink, so that it starts over; `id` is its key."""

    id: str


TransactionCommand = Init | AddPartitions | AddOffsets | EndTransaction | Complete | Abort | Expire | Forget
Command = TransactionCommand | CommitBatch | ForgetSink


class WaitingInit(NamedTuple):
    """An InitProducer that is carried out when the previous transaction has ended."""

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
        """Return whether the stored parts are equal."""
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
        """Whether a transaction is open, and its end undecided."""
        return self.state is TransactionState.ONGOING

    @property
    def is_ending(self) -> bool:
        """Whether the end of the transaction is decided, but not all markers are known to be durable."""
        return self.state in _ENDING

    @property
    def is_committed(self) -> bool:
        """Whether the last transaction was committed, with or without all markers."""
        return self.state in _COMMITTED

    @property
    def holder(self) -> ProducerEpoch | None:
        """The present identity, if a producer holds it.

        No producer does after an abort without the producer, nor before it is sent: while the transaction ends, if that
        raised the epoch.
        """
        if self.state in _IN_USE:
            return self.identity
        is_nobodys = self.previous != self.identity if self.is_ending else self.previous is None
        return None if is_nobodys else self.identity


_VOLATILE = frozenset({"deadline_ms", "waiting_ends", "waiting_init"})
_stored = attrgetter(*(name for name in Transaction.__struct_fields__ if name not in _VOLATILE))


@dataclass(frozen=True, slots=True)
class Ending:
    """The work that ends a transaction: a marker for each partition, and the offsets of each group."""

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
        """The command that reports the work as done."""
        return Complete(self.id, self.producer_id, self.epoch, self.number)
