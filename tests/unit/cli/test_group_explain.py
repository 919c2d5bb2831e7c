"""What `goqueue group explain` says of groups in all their states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from goqueue.cli.groups.explain import Sentence, explained, partitions_text, retention_line
from goqueue.cli.terminal.times import age_text
from goqueue.client import Group, GroupMember, GroupOffset, GroupPartition, GroupRebalance
from goqueue.client.group_values import Owner
from goqueue.client.problems import Problem

ZERO, ONE = GroupPartition("orders", 0), GroupPartition("orders", 1)


def group(**fields: Any) -> Group:
    """A stable group whose broker assigns, unless told otherwise."""
    usual: dict[str, Any] = {"kind": "consumer", "state": "stable", "generation": 3, "assignor": "sticky"}
    return Group(name="billing", **usual | fields)


def member(name: str, *assigned: GroupPartition, **fields: Any) -> GroupMember:
    """A member that was heard a moment ago, unless told otherwise."""
    usual: dict[str, Any] = {
        "client_id": name,
        "host": "10.0.0.7",
        "generation": 3,
        "assigned": assigned,
        "target": assigned,
        "silent_seconds": 0.2,
    }
    return GroupMember(member_id=f"{name}-id", **usual | fields)


def offset(partition: int, **fields: Any) -> GroupOffset:
    """How far the group is in a partition."""
    return GroupOffset(topic="orders", partition=partition, **fields)


@dataclass
class Said:
    """Sentences, to look into."""

    sentences: list[Sentence]

    def about(self, about: str) -> list[str]:
        """Return what is said about something."""
        return [each.text for each in self.sentences if each.about == about]

    @property
    def trouble(self) -> list[str]:
        """What somebody should look at."""
        return [each.text for each in self.sentences if each.is_trouble]


def said(**fields: Any) -> Said:
    """What is said of a group."""
    return Said(explained(group(**fields)))


def test_stable_group_is_explained_with_its_assignment() -> None:
    told = said(
        topics=("orders",), members=(member("a", ZERO), member("b", ONE)), offsets=(offset(0, offset=4, lag=0),)
    )
    assert told.about("state") == [
        "Group billing is stable: 2 members in generation 3, reading orders; the broker assigned 2 partitions (sticky)."
    ]
    assert told.about("member") == [
        "a (a-id on 10.0.0.7) reads orders-0.",
        "b (b-id on 10.0.0.7) reads orders-1.",
    ]
    assert told.about("lag") == ["It has read everything."]
    assert told.trouble == []


def test_queue_group_is_explained_with_messages_per_consumer() -> None:
    members = (
        member("app", ZERO, topics=("orders",), in_flight=0),
        member("ann", in_flight=1, host=""),
        member("bob", in_flight=3, host=""),
    )

    def state(*who: GroupMember, **fields: Any) -> str:
        (text,) = said(kind="queue", members=who, **fields).about("state")
        return text.removeprefix("Group billing is a queue group, ").removesuffix(
            "; goqueue queue describe billing tells more."
        )

    assert state(*members) == "2 consumers of it have messages now"
    assert state(*members[:2]) == "1 consumer of it has messages now"
    assert state(members[0]) == "1 member of it has none of its messages now"
    assert state() == "idle"
    assert state(*members, state="paused") == "paused"
    assert said(kind="queue", members=members).about("member") == [
        "app (app-id on 10.0.0.7) holds 0 messages, and looks at orders-0.",
        "ann holds 1 message.",
        "bob holds 3 messages.",
    ]


def test_groups_without_members_say_so() -> None:
    assert said(state="empty").about("state") == ["Group billing has no members; its offsets are kept."]
    assert "never had members" in said(kind="offsets", state="empty").about("state")[0]


def test_rebalance_names_late_and_waiting_members() -> None:
    late = member("a", ZERO, revoking=(ONE,), target=(ZERO,), state="pending_revoke", revoke_within_seconds=48.0)
    waiting = member("b", target=(ONE,), state="pending_assign")
    rebalance = GroupRebalance(generation=3, reason="member b-id joined", began_at="2026-01-31T10:00:00Z", moves=1)
    told = said(state="rebalancing", members=(late, waiting), rebalances=(rebalance,), rebalance_count=2, move_count=1)
    assert "is rebalancing since " in told.about("state")[0]
    assert "because member b-id joined" in told.about("state")[0]
    assert told.trouble == [
        "a was asked to give back orders-1, and has not yet; it is removed if it takes 48.0 s more."
    ]
    assert "b waits for orders-1 from a." in told.about("member")
    assert told.about("rebalance")[0] == (
        "2 rebalances so far, which moved 1 partition from one member to another; the latest first:"
    )
    assert told.about("rebalance")[1].endswith("member b-id joined; not over yet, moved 1 partition.")


def test_a_member_that_has_not_heard_of_a_rebalance_is_not_late() -> None:
    told = said(state="rebalancing", members=(member("a", ZERO, state="pending_revoke"),))
    assert "a has not heard of the rebalance yet; its next heartbeat tells it." in told.about("member")
    assert told.trouble == []


def test_member_without_partitions_is_explained() -> None:
    told = said(topics=("orders",), members=(member("a", ZERO), member("b")))
    assert "b (b-id on 10.0.0.7) reads nothing." in told.about("member")
    assert "b has nothing to do: there are more members than partitions." in told.about("member")


def test_silent_and_absent_members_are_named() -> None:
    silent = member("a", ZERO, silent_seconds=21.0)
    away = member("b", generation=-2, silent_seconds=21.0)
    told = said(members=(silent, away))
    assert told.trouble == ["a has been silent for 21.0 s; silent members are removed."]
    assert "b has left for a while, and its place is kept." in told.about("member")


def test_lag_names_the_worst_partition_and_its_reader() -> None:
    told = said(
        members=(member("a", ZERO, ONE),),
        lag=1203,
        lag_seconds=90.0,
        offsets=(
            offset(0, offset=1, lag=1200, lag_seconds=3.0, owner=Owner("a-id", "a")),
            offset(1, offset=1, lag=3, lag_seconds=90.0, owner=Owner("a-id", "a")),
        ),
    )
    (text,) = told.about("lag")
    assert text == (
        "1,203 messages in 2 partitions are unread, the oldest for 2 min; "
        "furthest behind is orders-1 with 3 messages, 2 min, read by a."
    )


def test_partitions_without_owner_or_commit_are_named() -> None:
    told = said(
        members=(member("a", ZERO),),
        offsets=(
            offset(0, owner=Owner("a-id", "a")),
            offset(1, offset=2, lag=5),
            offset(2, offset=2, error=Problem(message="there is no topic")),
        ),
        lag=5,
    )
    assert "Nothing is committed yet for orders-0." in told.about("lag")
    assert told.trouble == ["No member reads orders-1.", "orders-2 cannot be used: there is no topic"]


def test_a_rebalance_that_is_over_tells_how_long_it_took() -> None:
    rebalances = tuple(
        GroupRebalance(
            generation=number,
            reason=f"reason {number}",
            began_at="2026-01-31T10:00:00Z",
            ended_at="2026-01-31T10:00:01Z",
            duration_seconds=0.25,
        )
        for number in range(9)
    )
    _, *told = said(rebalances=rebalances, rebalance_count=9).about("rebalance")
    assert [text.partition(": ")[2] for text in told] == [
        f"reason {number}; took 250 ms, moved 0 partitions." for number in (8, 7, 6, 5, 4)
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.12, "120 ms"), (3.5, "3.5 s"), (600, "10 min"), (7200, "2 h"), (172_800, "2 days")],
)
def test_ages_have_readable_units(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_of_many_partitions_the_first_are_named() -> None:
    many = [GroupPartition("t", index) for index in reversed(range(20))]
    assert partitions_text(many) == "t-0, t-1, t-2, t-3, t-4, t-5, t-6, t-7 and 12 more"
    assert partitions_text([]) == "nothing"


def test_losses_to_retention_are_trouble() -> None:
    told = said(
        offsets=(
            offset(0, offset=1, lag=5, lost=3, retention_risk="lost", retention_left_seconds=9e5),
            offset(1, offset=1, lag=5, retention_risk="held", retention_left_seconds=0.0),
            offset(2, offset=1, lag=5, retention_risk="near", retention_left_seconds=720.0),
            offset(3, offset=1, lag=5, retention_risk="near", retention_left_seconds=1800.0),
        )
    )
    assert told.about("retention") == [
        "Deleted before the group had read them: 3 messages of orders-0.",
        "Retention is held back in orders-1, since the group has not read what is old enough to go.",
        "Retention deletes unread messages of orders-2, orders-3 in 12 min.",
    ]
    assert set(told.about("retention")) <= set(told.trouble)
    assert said(offsets=(offset(0, offset=1, lag=5, retention_left_seconds=9e5),)).about("retention") == []


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"lost": 3, "retention_risk": "lost"}, "3 messages of orders-0 deleted unread"),
        ({"retention_risk": "held", "retention_left_seconds": 0.0}, "held back in orders-0"),
        (
            {"retention_risk": "near", "retention_left_seconds": 720.0},
            "deletes unread messages of orders-0 in 12 min",
        ),
        ({"retention_left_seconds": 7200.0}, "2 h until unread messages are deleted"),
        ({}, ""),
    ],
)
def test_retention_is_one_line_of_a_description(fields: dict[str, Any], line: str) -> None:
    assert retention_line(group(offsets=(offset(0, offset=1, lag=5, **fields),))) == line
