"""Replies that several routes of groups share: partitions, offsets and lag."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from goqueue.api.groups import GroupOffset, GroupPartition, Owner, PartitionError
from goqueue.broker.groups.view_values import MemberView, OffsetView
from goqueue.errors import GoQueueError
from goqueue.model.topic import TopicPartition
from goqueue.protocols.http.wire.problems import error_of
from goqueue.protocols.http.wire.times import moment, seconds


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
