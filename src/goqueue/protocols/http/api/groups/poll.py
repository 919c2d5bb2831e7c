"""Polling messages by HTTP, as a member of a group."""

from __future__ import annotations

from msgspec import UNSET

from goqueue.api.fields import WAIT_MS_MAX
from goqueue.api.groups import NextOffset, PolledMessages, PollQuery
from goqueue.broker.groups.poll import Poll, Polled, poll_group
from goqueue.errors import (
    Conflict,
    InconsistentProtocol,
    InstanceFenced,
    InvalidGroup,
    MemberFenced,
    StaleMemberEpoch,
    UnknownMember,
)
from goqueue.model.topic import TopicPartition
from goqueue.model.units import parse_bytes, parse_duration_ms
from goqueue.protocols.http.api.groups.replies import told_errors
from goqueue.protocols.http.api.messages import message_of
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_MEMBERS = (
    InvalidGroup,
    UnknownMember,
    MemberFenced,
    InstanceFenced,
    InconsistentProtocol,
    *COORDINATOR_ERRORS,
)


@route("GET", "/groups/{group}/poll", "groups.poll", errors=(*_OF_MEMBERS, StaleMemberEpoch, Conflict))
async def poll(context: Context, query: PollQuery) -> PolledMessages:
    """Read messages of a member's partitions; wait for one if there is none."""
    wanted = Poll(
        group=context.group,
        member_id=query.member_id,
        epoch=query.generation,
        limit=query.limit,
        wait_ms=min(parse_duration_ms(query.wait), WAIT_MS_MAX),
        bytes_max=max(parse_bytes(query.max_bytes), 1),
        start_at=query.reset,
        is_auto_commit=query.auto_commit,
        seen=None if query.after is UNSET else query.after,
        seeks=_seeks(query.seek),
        is_committed_only=query.isolation == "read_committed",
    )
    services = context.services
    polled = await poll_group(context.broker.groups, context.caller, services.polls, services.positions, wanted)
    return _told(polled)


def _seeks(written: str) -> list[tuple[TopicPartition, int]]:
    parts = [each.split(":") for each in written.split(",") if each]
    return [(TopicPartition(topic, int(partition)), int(offset)) for topic, partition, offset in parts]


def _told(polled: Polled) -> PolledMessages:
    messages = [
        message_of(each.topic, each.partition, record) for each, records in polled.records.items() for record in records
    ]
    return PolledMessages(
        poll=polled.number,
        generation=polled.standing.member.epoch,
        state="rebalancing" if polled.standing.is_behind else "stable",
        messages=messages,
        offsets=[NextOffset(*each, offset) for each, offset in polled.next_offsets.items()],
        has_forgotten=polled.has_forgotten,
        errors=told_errors(polled.errors.items()) if polled.errors else UNSET,
    )
