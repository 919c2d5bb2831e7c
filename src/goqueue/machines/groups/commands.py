"""Commands about the offsets of groups, their deletion, and the passing of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.machines.groups.offsets import NewOffset
from goqueue.model.topic import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """Set offsets of a group, as a member (`epoch` is its generation or member epoch) or without one.

    With a producer id, the offsets are set when the producer's transaction commits. The reply has an error or None for
    each.
    """

    group: str
    offsets: Sequence[NewOffset]
    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None
    producer_id: int | None = None


class DeleteOffsets(NamedTuple):
    """Delete offsets of a group; the reply has an error or None for each."""

    group: str
    partitions: Sequence[TopicPartition]


class DeleteGroup(NamedTuple):
    """Delete a group without members, and its offsets."""

    group: str


class EndOffsets(NamedTuple):
    """Set or discard the offsets that wait for the end of a producer's transaction."""

    producer_id: int
    is_commit: bool


class DropTopicOffsets(NamedTuple):
    """Delete the offsets of a topic that was deleted."""

    topic: str


class Refresh(NamedTuple):
    """Check whether topics of the group have changed."""

    group: str


class Tick(NamedTuple):
    """Handle the deadlines of a group."""

    group: str


class Sweep(NamedTuple):
    """Delete the offsets of groups that have been unused for a long time."""
