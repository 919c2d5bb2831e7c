"""Replies that several routes of groups share: partitions, offsets and lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import (
    NAME_PATTERN,
    PartitionIndex,
    Timestamp,
)
from goqueue.api.problems import MessageError
from goqueue.broker.groups.view_values import MemberView, OffsetView
from goqueue.broker.topics.retention_risk import Danger
from goqueue.errors import GoQueueError
from goqueue.model.topic import NAME_MAX, TopicPartition
from goqueue.protocols.http.wire.problems import error_of
from goqueue.protocols.http.wire.times import moment, seconds


class GroupPartition(msgspec.Struct, forbid_unknown_fields=True, order=True):
    """A partition by the name of its topic."""

    topic: Annotated[
        str, Meta(min_length=1, max_length=NAME_MAX, pattern=NAME_PATTERN, description="The name of a topic.")
    ]
    partition: PartitionIndex


class PartitionError(msgspec.Struct):
    """The error of one partition; others may have succeeded."""

    topic: str
    partition: int
    error: MessageError


class Owner(msgspec.Struct):
    """The member that a partition is assigned to."""

    member_id: str
    client_id: str
    host: str


class GroupOffset(msgspec.Struct, kw_only=True):
    """A group's offset in a partition. `lag` counts unread messages, `lag_seconds` is the age of the oldest one.

    Unknown values are null: nothing was committed, or the age cannot be found. A partition that cannot be used has an
    error instead. `lost` counts offsets that were deleted unread; retention deletes the next ones after
    `retention_left_seconds`. `retention_risk`: `near` if that is soon, `lost` if it has happened, `held` if only the
    group holds retention back.
    """

    topic: str
    partition: int
    offset: int | None
    start_offset: int | None
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    lost: int
    retention_risk: Danger
    retention_left_seconds: float | None
    metadata: str
    committed_at: Timestamp | None
    owner: Owner | None
    error: MessageError | UnsetType = UNSET


def partitions_of(given: Iterable[GroupPartition]) -> frozenset[TopicPartition]:
    """Return partitions as values of the broker."""
    return frozenset(TopicPartition(each.topic, each.partition) for each in given)


def told(partitions: Iterable[TopicPartition]) -> list[GroupPartition]:
    """Return partitions for a reply, sorted."""
    return [GroupPartition(*each) for each in sorted(partitions)]


def told_errors(errors: Iterable[tuple[TopicPartition, GoQueueError]]) -> list[PartitionError]:
    """Return errors of partitions for a reply, sorted."""
    return [PartitionError(*each, error_of(error)) for each, error in sorted(errors, key=lambda pair: pair[0])]


def told_offset(view: OffsetView) -> GroupOffset:
    """Return a group's offset in a partition for a reply."""
    committed, lag = view.committed, view.lag
    return GroupOffset(
        topic=view.partition.topic,
        partition=view.partition.partition,
        offset=None if committed is None else committed.offset,
        start_offset=lag.start_offset,
        end_offset=lag.end_offset,
        lag=lag.messages,
        lag_seconds=seconds(lag.age_ms),
        lost=lag.risk.lost,
        retention_risk=lag.risk.danger,
        retention_left_seconds=seconds(lag.risk.left_ms),
        metadata="" if committed is None else committed.metadata,
        # A queue group has no commits; its floor is shown as one.
        committed_at=moment(committed.committed_ms) if committed is not None and committed.committed_ms else None,
        owner=None if view.owner is None else _owner(view.owner),
        error=UNSET if lag.error is None else error_of(lag.error),
    )


def _owner(member: MemberView) -> Owner:
    return Owner(member.id, member.client_id, member.host)


def greatest_lag_seconds(offsets: Iterable[GroupOffset]) -> float | None:
    """Return the age of the oldest unread message of a group; None if no age is known."""
    return max((each.lag_seconds for each in offsets if each.lag_seconds is not None), default=None)
