"""Cooperative members by HTTP: single partitions are given back, the others are read all the time."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from tests.protocols.http.expect import refused
from tests.protocols.http.group_kit import Cooperative, Member, describe, done, fill, settle


def test_a_rebalance_goes_through_all_its_states(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    first, second = Cooperative(http, topic, topic), Cooperative(http, topic, topic)
    first.join()
    assert (first.state, first.assigned, first.revoke) == ("none", {0, 1, 2}, set())
    second.join()
    assert (second.state, second.assigned) == ("pending_assign", set())
    first.heartbeat()
    assert first.state == "pending_revoke"
    (asked,) = first.revoke
    assert first.assigned == {0, 1, 2} - {asked}
    second.heartbeat()
    assert (second.state, second.assigned) == ("pending_assign", set())
    first.give_back(asked)
    assert (first.state, first.revoke) == ("complete", set())
    second.heartbeat()
    assert (second.state, second.assigned) == ("none", {asked})
    assert first.heartbeat()["state"] == "none"
    assert describe(http, topic)["state"] == "stable"


def test_untouched_partitions_never_pause(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    first, second = Cooperative(http, topic, topic), Cooperative(http, topic, topic)
    first.join()
    fill(http, topic, 1, 1, 1)
    assert len(first.values()) == 3
    second.join()
    fill(http, topic, 1, 1, 1)
    assert len(first.values()) == 3, "it has not been asked for anything yet"
    first.heartbeat()
    fill(http, topic, 1, 1, 1)
    assert {int(value.split("/")[0]) for value in first.values()} == first.assigned
    first.give_back(*first.revoke)
    fill(http, topic, 1, 1, 1)
    assert len(first.values()) == 2
    second.heartbeat()
    assert len(second.values()) == 4, "nothing was committed of the partition that moved"


def test_heartbeat_gives_up_partitions_that_are_not_owned(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    first, second = Cooperative(http, topic, topic), Cooperative(http, topic, topic)
    first.join()
    second.join()
    first.heartbeat({0, 1})
    assert first.state == "pending_revoke"
    first.heartbeat({0, 1})
    assert first.state == "pending_revoke", "it owns it still"
    first.heartbeat()
    assert first.state == "pending_revoke", "it has not said"
    first.heartbeat(first.assigned)
    assert first.state == "complete"
    second.heartbeat()
    assert second.assigned == {0, 1} - first.assigned


def test_only_what_was_asked_for_can_be_given_back(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    first, second = Cooperative(http, topic, topic), Cooperative(http, topic, topic)
    first.join()
    refused(first.try_give_back(0), 409, "conflict")
    second.join()
    first.heartbeat()
    (asked,) = first.revoke
    refused(first.try_give_back(*first.assigned), 409, "conflict")
    first.give_back(asked)
    before = first.assigned
    first.give_back(asked)
    assert first.assigned == before, "a repeated request changes nothing"
    second.heartbeat()
    refused(second.try_give_back(asked), 409, "conflict")
    for _ in range(2):
        second.leave()
        settle(first)
        second.join()
        settle(first, second)
    first.generation -= 2
    refused(first.try_give_back(asked), 409, "member_fenced")


def test_a_heartbeat_whose_answer_was_lost_can_be_repeated(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    first, second = Cooperative(http, topic, topic), Cooperative(http, topic, topic)
    first.join()
    second.join()
    settle(first, second)
    known = first.generation
    second.leave()
    owned = set(first.assigned)
    first.heartbeat(owned)
    assert first.generation > known
    first.generation = known
    first.heartbeat(owned)
    assert first.generation > known
    assert first.assigned == {0, 1, 2, 3}


def test_eager_and_cooperative_members_share_a_group(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    eager, gentle = Member(http, topic, topic), Cooperative(http, topic, topic)
    gentle.join()
    eager.join()
    settle(eager, gentle)
    assert len(eager.assigned) == len(gentle.assigned) == 2
    assert eager.assigned | gentle.assigned == {0, 1, 2, 3}


def test_where_a_member_stands_can_be_asked_without_a_sign_of_life(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    first, second = Cooperative(http, topic, topic), Cooperative(http, topic, topic)
    told = first.join()
    query = {"member_id": first.id}
    assert done(http.get(f"/groups/{topic}/assignment", params=query)) == told
    second.join()
    asked = done(http.get(f"/groups/{topic}/assignment", params=query))
    assert asked["state"] == "pending_revoke"
    assert asked["revoke"] == [], "only a heartbeat asks for partitions"
    assert len(asked["assigned"]) == 2


def test_reply_shows_current_and_target_assignment(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    first, second = Cooperative(http, topic, topic, client_id="a"), Cooperative(http, topic, topic, client_id="b")
    first.join()
    second.join()
    first.heartbeat()
    told = done(http.get(f"/groups/{topic}/cooperative"))
    assert (told["name"], told["state"], told["generation"], told["assignor"]) == (topic, "rebalancing", 2, "sticky")
    one, two = sorted(told["members"], key=lambda member: member["client_id"])
    assert (one["state"], two["state"]) == ("pending_revoke", "pending_assign")
    assert one["revoking"] == two["target"]
    assert one["target"] == one["assigned"]
    assert 0 < one["revoke_within_seconds"] <= 60
    assert (two["assigned"], two["revoke_within_seconds"]) == ([], None)
    refused(http.get("/groups/nobody/cooperative"), 404, "unknown_group")


def test_rebalances_are_counted_with_reasons_and_moves(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    first, second = Cooperative(http, topic, topic), Cooperative(http, topic, topic)
    first.join()
    second.join()
    under_way = done(http.get(f"/groups/{topic}/rebalance/stats"))["rebalances"][-1]
    assert (under_way["ended_at"], under_way["duration_seconds"]) == (None, None)
    settle(first, second)
    stats = done(http.get(f"/groups/{topic}/rebalance/stats"))
    assert (stats["group"], stats["rebalance_count"], stats["move_count"]) == (topic, 2, 1)
    latest = stats["rebalances"][-1]
    assert (latest["generation"], latest["moves"]) == (2, 1)
    assert latest["reason"] == f"member {second.id} joined"
    assert latest["duration_seconds"] >= 0
    everywhere = done(http.get("/rebalance/stats"))
    assert everywhere["rebalance_count"] >= 2
    (mine,) = [each for each in everywhere["groups"] if each["group"] == topic]
    assert mine == {**stats, "rebalances": stats["rebalances"][-1:]}
