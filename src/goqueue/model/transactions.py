"""States and limits of transactions."""

from __future__ import annotations

from enum import StrEnum


class TransactionState(StrEnum):
    """State of a transaction, in Kafka's words."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


ID_BYTES_MAX = 1000
"""The maximum size of a transactional id."""

STAGES_MAX = 4_000
"""Transactions that one batch may commit: all are decided at once, while other commands wait."""
