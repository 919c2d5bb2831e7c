"""Values that all kinds of groups share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

REBALANCES_KEPT = 10

Topics = Mapping[str, int]
"""The partition count of each topic."""


class KnownTopic(NamedTuple):
    """A topic as groups know it: a re-created topic of the same name has another id."""

    id: UUID
    partitions: int


KnownTopics = Mapping[str, KnownTopic]
"""All existing topics, by name."""


class Rebalance(msgspec.Struct, frozen=True, array_like=True):
    """A rebalance: its reason, start, end, and how many partitions moved between members.

    `ended_ms` is -1 until all members have their target.
    """

    epoch: int
    reason: str
    began_ms: int
    ended_ms: int = -1
    moves: int = 0
