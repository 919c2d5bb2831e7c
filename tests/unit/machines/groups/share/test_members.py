"""Members of share groups: who joins, stays, leaves and is forgotten, and where each of them looks."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from goqueue.errors import GroupFull, MemberFenced, UnknownMember
from goqueue.machines.groups.share.members import MEMBERS_MAX, MemberKey, ShareMembers, assign_shares
from goqueue.machines.groups.share.values import LEAVE_EPOCH, SESSION_TIMEOUT_MS, ShareAssignment, ShareHeartbeat
from goqueue.machines.groups.values import KnownTopic

TOPICS = {"t": KnownTopic(UUID(int=1), 4), "u": KnownTopic(UUID(int=2), 1), "__own": KnownTopic(UUID(int=3), 9)}


def joins(member: str, *topics: str) -> ShareHeartbeat:
    return ShareHeartbeat("g", member, 0, frozenset(topics or ("t",)))


def shown(shares: ShareAssignment | None) -> list[str] | None:
    return None if shares is None else sorted(f"{each.topic}-{each.partition}" for each in shares)


def test_the_life_of_a_group() -> None:
    topics = dict(TOPICS)
    members = ShareMembers(topics)
    first = members.heartbeat(joins("ann"), 0)
    assert (first.epoch, shown(first.assignment)) == (1, ["t-0", "t-1", "t-2", "t-3"])
    second = members.heartbeat(joins("bob", "t", "u"), 1_000)
    assert (second.epoch, shown(second.assignment)) == (2, ["t-1", "t-3", "u-0"])
    stays = ShareHeartbeat("g", "ann", 1)
    assert shown(members.heartbeat(stays, 2_000).assignment) == ["t-0", "t-2"]
    assert members.heartbeat(replace(stays, epoch=2), 3_000).assignment is None
    topics["t"] = KnownTopic(UUID(int=1), 5)
    members.topics_changed()
    grown = members.heartbeat(replace(stays, epoch=2), 4_000)
    assert (grown.epoch, shown(grown.assignment)) == (3, ["t-0", "t-2", "t-4"])
    subscribed = members.heartbeat(replace(stays, epoch=3, topics=frozenset({"u"})), 5_000)
    assert (subscribed.epoch, shown(subscribed.assignment)) == (4, ["u-0"])
    members.validate()
    assert members.heartbeat(replace(stays, epoch=LEAVE_EPOCH), 6_000).epoch == LEAVE_EPOCH
    assert shown(members.heartbeat(ShareHeartbeat("g", "bob", 2), 7_000).assignment) == [
        *(f"t-{index}" for index in range(5)),
        "u-0",
    ]
    members.remove(MemberKey("g", "bob"))
    assert members.groups == {}
    assert members.deadline_ms() is None
    members.validate()


def test_silence_is_counted_from_the_last_heartbeat() -> None:
    members = ShareMembers(TOPICS)
    members.heartbeat(joins("ann"), 0)
    members.heartbeat(joins("bob"), 0)
    members.heartbeat(ShareHeartbeat("g", "ann", 1), 40_000)
    assert members.deadline_ms() == SESSION_TIMEOUT_MS
    assert members.expired(SESSION_TIMEOUT_MS - 1) == []
    assert members.expired(SESSION_TIMEOUT_MS) == [MemberKey("g", "bob")]
    members.remove(MemberKey("g", "bob"))
    assert members.deadline_ms() == 40_000 + SESSION_TIMEOUT_MS
    assert members.expired(40_000 + SESSION_TIMEOUT_MS) == [MemberKey("g", "ann")]


def test_a_member_that_joins_again_is_told_all_and_keeps_its_place() -> None:
    members = ShareMembers(TOPICS)
    members.heartbeat(joins("ann"), 0)
    again = members.heartbeat(joins("ann"), 1_000)
    assert (again.epoch, shown(again.assignment)) == (1, ["t-0", "t-1", "t-2", "t-3"])
    members.validate()


def test_epochs_and_members_that_nobody_knows_are_refused() -> None:
    members = ShareMembers(TOPICS)
    members.heartbeat(joins("ann"), 0)
    for epoch in (2, 77):
        with pytest.raises(MemberFenced):
            members.heartbeat(ShareHeartbeat("g", "ann", epoch), 0)
    for stranger in (ShareHeartbeat("g", "bob", 1), ShareHeartbeat("h", "ann", 1), ShareHeartbeat("g", "bob", -1)):
        with pytest.raises(UnknownMember):
            members.heartbeat(stranger, 0)


def test_the_topics_of_the_broker_are_given_to_nobody() -> None:
    members = ShareMembers(TOPICS)
    assert shown(members.heartbeat(joins("ann", "__own", "missing"), 0).assignment) == []


def test_a_group_is_full_at_some_time_and_members_come_less_often() -> None:
    members = ShareMembers(TOPICS)
    for number in range(MEMBERS_MAX):
        told = members.heartbeat(joins(f"m{number}"), 0)
    assert told.heartbeat_interval_ms == 3_000
    with pytest.raises(GroupFull):
        members.heartbeat(joins("one more"), 0)
    assert members.heartbeat(joins("m7"), 0).epoch == MEMBERS_MAX
    members.validate()


def test_shares_go_round_over_topics_as_well() -> None:
    dealt = assign_shares(dict.fromkeys("abc", frozenset({"t", "u"})), {"t": 1, "u": 2})
    everybody = sorted((len(partitions), member) for member, partitions in dealt.items())
    assert everybody == [(2, "a"), (2, "b"), (2, "c")]
    assert assign_shares({}, {"t": 3}) == {}
    assert assign_shares({"a": frozenset({"t"})}, {"t": 0}) == {"a": frozenset()}
