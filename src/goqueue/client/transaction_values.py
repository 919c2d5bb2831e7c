"""What calls about transactions take and return."""

from __future__ import annotations

import msgspec

from goqueue.client.group_values import GroupPartition


class Producer(msgspec.Struct, frozen=True):
    """Who acts under a transactional id: the identity that was given last. Each transaction has an epoch of its own."""

    transactional_id: str
    producer_id: int
    epoch: int


class ProducerState(msgspec.Struct, frozen=True, kw_only=True):
    """How a producer stands; without a transaction under way it has no time left, nor needs any."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    time_left_ms: int | None = None


class TransactionView(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id; partitions and groups are those of the transaction under way, which began at `started_at`."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    updated_at: str
    time_left_ms: int | None = None
    started_at: str | None = None
    partitions: tuple[GroupPartition, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called: the transactional id."""
        return self.transactional_id

    @property
    def is_under_way(self) -> bool:
        """Whether there is a transaction that has not ended everywhere."""
        return self.started_at is not None


class TransactionStats(msgspec.Struct, frozen=True, kw_only=True):
    """How many ids are in each state, which transaction is open longest, and how others have ended since the start."""

    states: dict[str, int]
    oldest_open: TransactionView | None = None
    committed: int = 0
    aborted: dict[str, int] = {}


class BatchCommitted(msgspec.Struct, frozen=True):
    """A batch of a sink is committed; `is_new` unless that had happened before. `last_batch` is the sink's last one."""

    last_batch: int
    is_new: bool


class Sink(msgspec.Struct, frozen=True):
    """The last batch that a sink is known to have committed, and when."""

    last_batch: int | None = None
    committed_at: str | None = None


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that is open in a partition; without a transactional id nobody will end it by itself.

    If its marker may be lost in damage (`may_be_committed`), nobody knows whether it was committed.
    """

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str | None = None
    may_be_committed: bool = False
