"""Requests and replies about producers, transactions and sinks."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import NAME_SCHEMA, Timestamp
from goqueue.api.messages import MessageToPublish
from goqueue.api.problems import MessageError
from goqueue.model.groups import METADATA_BYTES_MAX
from goqueue.model.request_limits import MESSAGES_MAX
from goqueue.model.transactions import ID_BYTES_MAX, STAGES_MAX, TransactionState

_INT64_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1
_EPOCH_MAX = 2**15 - 1
# The schemas only describe these; the operations check them, with better errors.
NOT_EMPTY_SCHEMA = {"minLength": 1}
_DURATION_PATTERN = "^(([1-9][0-9]{0,4}|[1-8][0-9]{5}|900000)(ms)?|([1-9][0-9]?|[1-8][0-9]{2}|900)s|([1-9]|1[0-5])m)$"
_TransactionalId = Annotated[
    str,
    Meta(
        description=f"Permanent name of the producer; up to {ID_BYTES_MAX} bytes.", extra_json_schema=NOT_EMPTY_SCHEMA
    ),
]
_ProducerId = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
_Epoch = Annotated[int, Meta(ge=0, le=_EPOCH_MAX, description="The last epoch that the producer received.")]
_Topic = Annotated[str, Meta(description="The name of a topic.", extra_json_schema=NAME_SCHEMA)]
_Partition = Annotated[int, Meta(ge=0, le=_PARTITION_MAX)]
_Timeout = (
    Annotated[int, Meta(description="Milliseconds.", extra_json_schema={"minimum": 1, "maximum": 900_000})]
    | Annotated[str, Meta(description="Such as 500ms, 30s or 5m.", extra_json_schema={"pattern": _DURATION_PATTERN})]
)


class NewProducer(msgspec.Struct, forbid_unknown_fields=True):
    """A producer to register under a transactional id; its transactions are aborted after the timeout."""

    transactional_id: _TransactionalId
    timeout: _Timeout = "60s"


class Producer(msgspec.Struct, frozen=True):
    """The current producer of a transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int


class ProducerToCheck(msgspec.Struct, forbid_unknown_fields=True):
    """The epoch of the producer to check."""

    epoch: _Epoch


class ProducerState(msgspec.Struct, kw_only=True):
    """The state of a current producer; `time_left_ms` is null unless a transaction is open."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: TransactionState
    timeout_ms: int
    time_left_ms: int | None


class _Acting(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The identity of a producer."""

    transactional_id: _TransactionalId
    producer_id: _ProducerId
    epoch: _Epoch


class ActingProducer(_Acting):
    """The last identity that a producer received."""


class TransactionMessages(_Acting):
    """Messages to publish in the transaction.

    `sequence` numbers the requests of the transaction from 0 on, and makes them safe to retry: a repeated request gets
    the reply of the first one. The same number with other messages is refused.
    """

    topic: _Topic
    messages: Annotated[list[MessageToPublish], Meta(min_length=1, max_length=MESSAGES_MAX)]
    sequence: Annotated[int, Meta(ge=0, le=_PARTITION_MAX)] | None = None


class TransactionPartition(msgspec.Struct, forbid_unknown_fields=True):
    """A partition of a topic."""

    topic: _Topic
    partition: _Partition


class TransactionPartitions(_Acting):
    """Partitions to add to the transaction, all or none of them."""

    partitions: Annotated[list[TransactionPartition], Meta(min_length=1, max_length=MESSAGES_MAX)]


class TransactionOffset(msgspec.Struct, forbid_unknown_fields=True):
    """The offset of the next message that a group reads in a partition."""

    topic: _Topic
    partition: _Partition
    offset: Annotated[int, Meta(ge=0, le=_INT64_MAX)]
    metadata: Annotated[str, Meta(description=f"Stored with the offset; up to {METADATA_BYTES_MAX} bytes.")] = ""


class TransactionOffsets(_Acting):
    """Offsets of a group that are committed with the transaction; a member of the group gives its id and generation."""

    group: Annotated[str, Meta(description="The name of a group.", extra_json_schema=NOT_EMPTY_SCHEMA)]
    offsets: Annotated[list[TransactionOffset], Meta(min_length=1, max_length=MESSAGES_MAX)]
    member_id: str = ""
    generation: Annotated[int, Meta(ge=-1, le=_PARTITION_MAX)] = -1


class TransactionOffsetResult(msgspec.Struct):
    """The result of one offset."""

    topic: str
    partition: int
    error: MessageError | UnsetType = UNSET


class TransactionOffsetResults(msgspec.Struct):
    """The result of each offset, in the order of the request."""

    results: list[TransactionOffsetResult]


class BatchToCommit(msgspec.Struct, forbid_unknown_fields=True):
    """A batch of a sink, and the transactions that its records are staged in."""

    batch: Annotated[int, Meta(ge=0, le=_INT64_MAX, description="Increases from batch to batch.")]
    stages: Annotated[list[ActingProducer], Meta(max_length=STAGES_MAX)]


class BatchCommitted(msgspec.Struct, frozen=True):
    """A batch that is committed in all partitions; `last_batch` is the last one of the sink.

    `is_new` is false if it was committed before: then the repeated stages are aborted.
    """

    last_batch: int
    is_new: bool


class Sink(msgspec.Struct, frozen=True):
    """The last batch that a sink has committed, and when; null if none is known."""

    last_batch: int | None
    committed_at: Timestamp | None


class TransactionsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which transactional ids to list: all, or by state or producer."""

    state: TransactionState | UnsetType = UNSET
    producer_id: Annotated[int, Meta(ge=0, le=2**63 - 1)] | UnsetType = UNSET


class ForcedAbort(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


class Transaction(msgspec.Struct, kw_only=True):
    """A transactional id, and its current or last transaction.

    `partitions` and `groups` are those of the open transaction, which began at `started_at`. `time_left_ms` is what is
    left of `timeout_ms`; a transaction that is committing or aborting has no limit.
    """

    transactional_id: str
    state: TransactionState
    producer_id: int
    epoch: int
    timeout_ms: int
    time_left_ms: int | None
    started_at: Timestamp | None
    updated_at: Timestamp
    partitions: list[TransactionPartition]
    groups: list[str]


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open in a partition; without a transactional id, only an operator can end it.

    If `may_be_committed`, its marker may have been lost in damage, and whether it was committed is unknown.
    """

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str | None
    may_be_committed: bool


class OpenTransactions(msgspec.Struct):
    """The transactions that are open in a partition, oldest first."""

    transactions: list[OpenTransaction]


class HangingAbort(msgspec.Struct, forbid_unknown_fields=True):
    """The producer whose transaction to abort in the partition."""

    producer_id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    force: Annotated[
        bool, Meta(description="Abort even if the log of a coordinator cannot be used that may know the transaction.")
    ] = False


class Transactions(msgspec.Struct):
    """Transactional ids, sorted."""

    transactions: list[Transaction]


class TransactionStats(msgspec.Struct, kw_only=True):
    """The number of transactional ids in each state, the longest open transaction, and how others ended.

    `committed` and `aborted` count since the start of the broker. Causes of aborts: the producer (`abort`), a new
    producer with the same id (`init`), the timeout (`timeout`), or an operator (`operator`).
    """

    states: dict[str, int]
    oldest_open: Transaction | None
    committed: int
    aborted: dict[str, int]
