"""What can be asked of groups besides being a member: offsets, their end, and the passing of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.machines.groups.offsets import NewOffset
from goqueue.model.topic import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """Set offsets of a group, as a member of it (`epoch` is its generation or member epoch) or as nobody's.

    With a producer id they are set once the producer's transaction commits. The answer has an error or None for each.
    """

    group: str
    offsets: Sequence[NewOffset]
    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None
    producer_id: int | None = None


class DeleteOffsets(NamedTuple):
    """Forget offsets of a group; the answer has an error or None for each."""

    group: str
    partitions: Sequence[TopicPartition]


class DeleteGroup(NamedTuple):
    """Forget a group without members, and its offsets."""

    group: str


class EndOffsets(NamedTuple):
    """Set or forget the offsets that wait for the end of a producer's transaction."""

    producer_id: int
    is_commit: bool


class DropTopicOffsets(NamedTuple):
    """Forget the offsets of a topic that is gone."""

    topic: str


class Refresh(NamedTuple):
    """Look whether topics have changed that the group reads."""

    group: str


class Tick(NamedTuple):
    """Do what is due in a group."""

    group: str


class Sweep(NamedTuple):
    """Forget the offsets of groups that nobody has used for a long time."""
