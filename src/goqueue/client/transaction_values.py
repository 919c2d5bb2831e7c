"""What calls about transactions take and return."""

from __future__ import annotations

import msgspec

from goqueue.api.groups import GroupPartition


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
