"""Words that all kinds of groups share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

REBALANCES_KEPT = 10

Topics = Mapping[str, int]
"""How many partitions each topic has."""


class KnownTopic(NamedTuple):
    """A topic as groups know it: a later one of the same name has another id."""

    id: UUID
    partitions: int


KnownTopics = Mapping[str, KnownTopic]
"""All topics that there are, by name."""


class Rebalance(msgspec.Struct, frozen=True, array_like=True):
    """What moved partitions between members: why, since when, for how long, and how many of them.

    `ended_ms` is -1 while members have not all got what they are to have.
    """

    epoch: int
    reason: str
    began_ms: int
    ended_ms: int = -1
    moves: int = 0
