"""Polling messages by HTTP, as a member of a group."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import BYTES_PATTERN, OFFSET_MAX, WAIT_MS_MAX, WAIT_PATTERN, Generation, MemberId
from goqueue.api.messages import Message
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
from goqueue.model.request_limits import MESSAGES_MAX
from goqueue.model.start_at import StartAt
from goqueue.model.topic import TopicPartition
from goqueue.model.units import parse_bytes, parse_duration_ms
from goqueue.protocols.http.api.groups.shapes import PartitionError, told_errors
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

_SEEK = "[a-zA-Z0-9._-]{1,249}:[0-9]{1,9}:[0-9]{1,18}"
_SEEK_PATTERN = f"^({_SEEK}(,{_SEEK})*)?$"


class PollQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The member that polls, how much to return, and how long to wait for a message."""

    member_id: MemberId
    generation: Generation
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX, description="Maximum number of messages.")] = 100
    wait: Annotated[str, Meta(pattern=WAIT_PATTERN, description="How long to wait for a message, up to 60s.")] = "0"
    max_bytes: Annotated[
        str,
        Meta(pattern=BYTES_PATTERN, description="Maximum bytes of keys and values; at least one message is returned."),
    ] = "1MiB"
    auto_commit: Annotated[bool, Meta(description="First commit the messages of earlier polls.")] = False
    reset: Annotated[
        StartAt, Meta(description="Where to start in a partition whose committed offset is missing or out of range.")
    ] = StartAt.EARLIEST
    after: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=OFFSET_MAX,
                description="The number of the last poll whose reply arrived; a lost reply is sent again.",
            ),
        ]
        | UnsetType
    ) = UNSET
    seek: Annotated[
        str,
        Meta(
            pattern=_SEEK_PATTERN,
            description="Where to continue in the member's partitions: TOPIC:PARTITION:OFFSET, separated by commas.",
        ),
    ] = ""
    isolation: Annotated[
        Literal["read_committed", "read_uncommitted"],
        Meta(description="read_committed leaves out messages of transactions that have not committed."),
    ] = "read_committed"


class NextOffset(msgspec.Struct):
    """The offset to commit for a partition once its messages are processed."""

    topic: str
    partition: int
    offset: int


class PolledMessages(msgspec.Struct, kw_only=True):
    """Messages of the member's partitions, in order per partition; `offsets` is what to commit after processing them.

    `poll` is the number of this reply, for `after`. If `rebalancing`, the member should send a heartbeat. `offsets`
    has all partitions whose offset is new to the member, also those without messages. If it `has_forgotten`, the
    broker does not know the earlier polls, and started at the committed offsets or at `reset`: a member that was
    elsewhere has to `seek`. Partitions with the error `offset_out_of_range` are read from `reset` on.
    """

    poll: int
    generation: int
    state: Literal["stable", "rebalancing"]
    messages: list[Message]
    offsets: list[NextOffset]
    has_forgotten: bool
    errors: list[PartitionError] | UnsetType = UNSET


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
