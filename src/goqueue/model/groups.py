"""Vocabulary of groups: their kinds and states, progress of members, and limits."""

from __future__ import annotations

from enum import StrEnum


class MemberProgress(StrEnum):
    """Progress of a member in a rebalance: it gives up partitions, waits for others, or is ready before others."""

    NONE = "none"
    PENDING_REVOKE = "pending_revoke"
    PENDING_ASSIGN = "pending_assign"
    COMPLETE = "complete"


class GroupKind(StrEnum):
    """How a group distributes messages: its members or the broker assign partitions, or it has offsets only.

    The consumers of a queue group lease single messages.
    """

    CLASSIC = "classic"
    CONSUMER = "consumer"
    OFFSETS = "offsets"
    QUEUE = "queue"


class GroupState(StrEnum):
    """State of a group."""

    EMPTY = "empty"
    STABLE = "stable"
    REBALANCING = "rebalancing"
    PAUSED = "paused"


class Danger(StrEnum):
    """The danger of retention to a reader.

    NONE: nothing yet. NEAR: what it reads next is deleted soon. HELD: it would have been, and is held back. LOST:
    messages were deleted that it has not read.
    """

    NONE = "none"
    NEAR = "near"
    HELD = "held"
    LOST = "lost"


class ResetTarget(StrEnum):
    """Where offsets can be moved to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    GROUP = "group"


METADATA_BYTES_MAX = 4096
"""The maximum size of the metadata of a committed offset."""

SESSION_TIMEOUT_MS = 30_000
"""A member that is silent for this long is removed."""

ASSIGNOR_NAMES = ("range", "roundrobin", "sticky", "uniform")
"""The assignors that a member may vote for."""
