"""Calls about groups: be a member, read as one, and look after groups and their offsets.

A member joins, sends heartbeats as often as it is told, polls, commits what it is done with, and leaves:

    member = client.send(groups.join("billing", ["orders"], client_id="worker-1"))
    page = client.send(groups.poll("billing", member))
    client.send(groups.commit("billing", page.offsets, member=member))

What it does with an old generation is refused (StaleMemberEpoch, MemberFenced), and so is what it does when it is no
member any more (UnknownMember): then it has to join again, with its `member_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from goqueue.api.groups import GroupPartition, GroupSummary
from goqueue.api.messages import Message as WireMessage
from goqueue.client.calls import Call, Reply, read_nothing, reading
from goqueue.client.durations import Duration, milliseconds, seconds_of
from goqueue.client.group_values import (
    AllRebalanceStats,
    CooperativeGroup,
    CooperativeMembership,
    Group,
    GroupOffsets,
    Membership,
    OffsetMove,
    OffsetMoves,
    PartitionOffset,
    RebalanceStats,
)
from goqueue.client.messages import Message, as_message
from goqueue.client.problems import Problem, error_of
from goqueue.errors import GoQueueError, InvalidGroup
from goqueue.model.start_at import StartAt


class Known(Protocol):
    """A member as it was told last: what joins and heartbeats return."""

    @property
    def member_id(self) -> str: ...
    @property
    def generation(self) -> int: ...


class GroupPage(NamedTuple):
    """Messages for a member; `offsets` is what to commit once they are done, `errors` are partitions left out.

    `number` goes into the next poll as `after`. If it `is_rebalancing`, a heartbeat tells what to do. `offsets` has all
    partitions whose offset was not told before, also without messages. If the broker `has_forgotten` where the member
    was, because it was started anew, this is read from the committed offsets, and seeks take the member back.
    OffsetOutOfRange tells that nothing was where it was to go on, and that it has begun at `start_at`.
    """

    messages: Sequence[Message]
    offsets: Sequence[PartitionOffset]
    number: int
    is_rebalancing: bool
    errors: Sequence[tuple[GroupPartition, GoQueueError]]
    has_forgotten: bool = False


class GroupList(list[GroupSummary]):
    """Groups in order of their names; unless it `is_complete`, there may be more, of which nothing can be told now."""

    is_complete: bool = True


class _Groups(msgspec.Struct):
    groups: list[GroupSummary]
    complete: bool = True


class _PartitionError(msgspec.Struct):
    topic: str
    partition: int
    error: Problem


class _Polled(msgspec.Struct):
    poll: int
    state: str
    messages: list[WireMessage]
    offsets: list[PartitionOffset]
    has_forgotten: bool = False
    errors: list[_PartitionError] = []


class _CommitResult(msgspec.Struct):
    error: Problem | None = None


class _CommitResults(msgspec.Struct):
    results: list[_CommitResult]


_DOTS = {".": "%2E", "..": "%2E%2E"}

_read_groups = reading(_Groups)
_read_group = reading(Group)
_read_membership = reading(Membership)
_read_cooperative = reading(CooperativeMembership)
_read_polled = reading(_Polled)
_read_commit = reading(_CommitResults)
_read_offsets = reading(GroupOffsets)
_read_moves = reading(OffsetMoves)
_read_cooperative_group = reading(CooperativeGroup)
_read_stats = reading(RebalanceStats)
_read_all_stats = reading(AllRebalanceStats)


# -- groups


def list_all() -> Call[GroupList]:
    """List all groups, in order of their names."""

    def read(reply: Reply) -> GroupList:
        told = _read_groups(reply)
        found = GroupList(told.groups)
        found.is_complete = told.complete
        return found

    return Call("GET", "/v1/groups", read)


def describe(group: str) -> Call[Group]:
    """Describe one group: members, offsets with lag, last rebalances."""
    return Call("GET", group_path(group), _read_group)


def delete(group: str) -> Call[None]:
    """Forget a group without members, and its offsets."""
    return Call("DELETE", group_path(group), read_nothing)


def cooperative(group: str) -> Call[CooperativeGroup]:
    """Tell who has what, and is to have what, in a group whose broker assigns."""
    return Call("GET", group_path(group, "cooperative"), _read_cooperative_group)


def rebalance_stats(group: str) -> Call[RebalanceStats]:
    """Tell how often a group was rebalanced, why, and for how long."""
    return Call("GET", group_path(group, "rebalance", "stats"), _read_stats)


def all_rebalance_stats() -> Call[AllRebalanceStats]:
    """Tell how often groups were rebalanced, with the latest reason of each."""
    return Call("GET", "/v1/rebalance/stats", _read_all_stats)


# -- members


def join(
    group: str,
    topics: Iterable[str],
    *,
    client_id: str = "python",
    member_id: str | None = None,
    instance_id: str | None = None,
    assignor: str | None = None,
) -> Call[Membership]:
    """Join a group; with a member id join again, and give back all that the member had."""
    body = _joining(topics, client_id, member_id, instance_id, assignor)
    return Call("POST", group_path(group, "join"), _read_membership, body=body)


def heartbeat(group: str, member: Known) -> Call[Membership]:
    """Stay a member; if the result `is_rebalancing`, the member has to join again."""
    body = msgspec.json.encode(_identity(member))
    return Call("POST", group_path(group, "heartbeat"), _read_membership, body=body)


def leave(group: str, member_id: str, *, for_a_while: bool = False) -> Call[None]:
    """Leave a group; a member with an instance id can leave for a while, and keeps its partitions meanwhile."""
    body = msgspec.json.encode({"member_id": member_id, "for_a_while": for_a_while})
    return Call("POST", group_path(group, "leave"), read_nothing, body=body)


def join_cooperatively(
    group: str,
    topics: Iterable[str],
    *,
    client_id: str = "python",
    member_id: str | None = None,
    instance_id: str | None = None,
    assignor: str | None = None,
) -> Call[CooperativeMembership]:
    """Join a group as a member that gives back single partitions and keeps the others."""
    body = _joining(topics, client_id, member_id, instance_id, assignor)
    return Call("POST", group_path(group, "join", "cooperative"), _read_cooperative, body=body)


def heartbeat_cooperatively(
    group: str, member: Known, *, owned: Iterable[GroupPartition] | None = None
) -> Call[CooperativeMembership]:
    """Stay a member, and learn what to give back and what is new; what is not in `owned` is given back."""
    body: dict[str, object] = _identity(member)
    if owned is not None:
        body["owned"] = list(owned)
    path = group_path(group, "heartbeat", "cooperative")
    return Call("POST", path, _read_cooperative, body=msgspec.json.encode(body))


def revoke(group: str, member: Known, partitions: Iterable[GroupPartition]) -> Call[CooperativeMembership]:
    """Give back partitions that the member was asked for."""
    body = msgspec.json.encode({**_identity(member), "partitions": list(partitions)})
    return Call("POST", group_path(group, "revoke"), _read_cooperative, body=body)


def assignment(group: str, member_id: str) -> Call[CooperativeMembership]:
    """Tell what a member has, and how far it is in a rebalance; that is no sign of life."""
    return Call("GET", group_path(group, "assignment"), _read_cooperative, query={"member_id": member_id})


def poll(
    group: str,
    member: Known,
    *,
    limit: int = 100,
    wait_s: Duration = 0.0,
    is_auto_commit: bool = False,
    start_at: StartAt = StartAt.EARLIEST,
    after: int = 0,
    seeks: Iterable[PartitionOffset] = (),
    is_committed_only: bool = True,
) -> Call[GroupPage]:
    """Read messages of the partitions that a member has, each from where it has got to.

    `after` is the number of the page before, 0 for the first one: if a page was lost on its way, it comes again. With
    auto-commit, each poll commits what the one before has brought. `seeks` is where to go on instead. Messages of
    transactions that have not committed are left out, unless `is_committed_only` is False.
    """
    wait_s = seconds_of(wait_s, "wait_s")
    query = {
        "member_id": member.member_id,
        "generation": str(member.generation),
        "limit": str(limit),
        "auto_commit": "true" if is_auto_commit else "false",
        "reset": start_at.value,
        "after": str(after),
    }
    if wait_s:
        query["wait"] = f"{milliseconds(wait_s)}ms"
    if sought := ",".join(f"{each.topic}:{each.partition}:{each.offset}" for each in seeks):
        query["seek"] = sought
    if not is_committed_only:
        query["isolation"] = "read_uncommitted"
    return Call("GET", group_path(group, "poll"), _read_page, query=query, wait_s=wait_s)


# -- offsets


def commit(
    group: str, offsets: Iterable[PartitionOffset], *, member: Known | None = None
) -> Call[Sequence[GoQueueError | None]]:
    """Set offsets, as a member, or as nobody's while the group has no members; the result has an error or None each."""
    body: dict[str, object] = {"offsets": list(offsets)}
    if member is not None:
        body |= _identity(member)
    path = group_path(group, "offsets")
    return Call("POST", path, _read_refusals, body=msgspec.json.encode(body), tells_failures=True)


def offsets(group: str) -> Call[GroupOffsets]:
    """Tell how far a group is in each partition, and what it has not read."""
    return Call("GET", group_path(group, "offsets"), _read_offsets)


def reset(
    group: str,
    to: str,
    *,
    offset: int | None = None,
    timestamp_ms: int | None = None,
    other_group: str | None = None,
    topics: Iterable[str] | None = None,
    partitions: Iterable[GroupPartition] | None = None,
    is_dry_run: bool = False,
) -> Call[Sequence[OffsetMove]]:
    """Move the offsets of a group without members to `earliest`, `latest`, an `offset`, a `time` or those of a `group`.

    Without topics and partitions all offsets move that the group has. A dry run tells what would happen.
    """
    wanted = {
        "to": to,
        "offset": offset,
        "time": timestamp_ms,
        "group": other_group,
        "topics": None if topics is None else list(topics),
        "partitions": None if partitions is None else list(partitions),
        "dry_run": is_dry_run,
    }
    body = msgspec.json.encode({name: value for name, value in wanted.items() if value is not None})

    def read(reply: Reply) -> Sequence[OffsetMove]:
        return _read_moves(reply).moves

    return Call("POST", group_path(group, "offsets", "reset"), read, body=body, tells_failures=True)


def group_path(group: str, *rest: str) -> str:
    """Return the path of a group or of something below it; InvalidGroup if it cannot stand in a path."""
    if not group:
        raise InvalidGroup("a group needs a name")
    # A dot alone, or two, would be taken for a place in the path.
    name = _DOTS.get(group) or quote(group, safe="")
    return "/v1/groups/" + "/".join([name, *(quote(part, safe="") for part in rest)])


def _joining(
    topics: Iterable[str], client_id: str, member_id: str | None, instance_id: str | None, assignor: str | None
) -> bytes:
    body = {
        "topics": list(topics),
        "client_id": client_id,
        "member_id": member_id,
        "instance_id": instance_id,
        "assignor": assignor,
    }
    return msgspec.json.encode({name: value for name, value in body.items() if value is not None})


def _identity(member: Known) -> dict[str, object]:
    return {"member_id": member.member_id, "generation": member.generation}


def _read_page(reply: Reply) -> GroupPage:
    polled = _read_polled(reply)
    return GroupPage(
        messages=[as_message(each) for each in polled.messages],
        offsets=polled.offsets,
        number=polled.poll,
        is_rebalancing=polled.state != "stable",
        errors=[(GroupPartition(each.topic, each.partition), error_of(each.error)) for each in polled.errors],
        has_forgotten=polled.has_forgotten,
    )


def _read_refusals(reply: Reply) -> Sequence[GoQueueError | None]:
    return [None if each.error is None else error_of(each.error) for each in _read_commit(reply).results]
