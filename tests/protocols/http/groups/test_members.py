"""Eager members by HTTP: join, stay, join again, leave, die, and what is refused to those who are none any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from goqueue.client import Client, groups
from goqueue.client.groups import group_path
from goqueue.testing import Broker
from tests.protocols.http.expect import refused
from tests.protocols.http.group_kit import Member, describe, done, fill, names, settle


def test_the_first_member_gets_all_partitions_of_all_its_topics(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    one, two = new_topic(3), new_topic(2)
    member = Member(http, one, one, two, client_id="worker")
    told = member.join()
    assert told["member_id"].startswith("worker-")
    assert told["generation"] == 1
    assert told["state"] == "stable"
    assert told["heartbeat_interval_ms"] > 0
    assert names(told["assignment"]) == {f"{one}-0", f"{one}-1", f"{one}-2", f"{two}-0", f"{two}-1"}
    assert member.heartbeat() == told


def test_a_joiner_gets_its_share_once_it_is_given_back(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    first, second = Member(http, topic, topic), Member(http, topic, topic)
    first.join()
    second.join()
    assert second.assigned == set()
    told = done(first.beat())
    assert told["state"] == "rebalancing"
    second.heartbeat()
    assert second.assigned == set(), "the first member has not given anything back yet"
    first.join()
    assert len(first.assigned) == 2
    second.heartbeat()
    assert second.assigned == {0, 1, 2} - first.assigned
    assert describe(http, topic)["state"] == "stable"


def test_a_partition_is_never_with_two_members(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(7)
    joined: list[Member] = []
    for step in range(60):
        if step % 9 == 0 and len(joined) < 4:
            joined.append(Member(http, topic, topic))
            joined[-1].join()
        elif step == 41:
            joined.pop(0).leave()
        else:
            joined[step % len(joined)].heartbeat()
        held = [partition for member in joined for partition in member.assigned]
        assert len(held) == len(set(held)), step
    settle(*joined)
    assert sorted(len(member.assigned) for member in joined) == [1, 2, 2, 2]


def test_joining_again_keeps_the_place_and_the_generation(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    member = Member(http, topic, topic)
    before = member.join()
    assert member.join() == before
    described = describe(http, topic)
    assert described["rebalance_count"] == 1
    assert [each["member_id"] for each in described["members"]] == [member.id]


def test_an_old_generation_is_refused(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    fill(http, topic, 2, 2)
    zombie, other = Member(http, topic, topic), Member(http, topic, topic)
    zombie.join()
    old = zombie.generation
    other.join()
    zombie.heartbeat()
    assert zombie.generation > old
    zombie.generation = old
    refused(zombie.beat(), 409, "member_fenced")
    refused(zombie.try_poll(), 409, "stale_member_epoch")
    refused(zombie.commit(topic, (0, 1)), 409, "stale_member_epoch")
    assert all(each["offset"] is None for each in describe(http, topic)["offsets"])


def test_unknown_member_is_refused(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    member = Member(http, topic, topic)
    member.join()
    stranger = Member(http, topic, topic)
    stranger.id, stranger.generation = "stranger", 1
    for reply in (
        stranger.beat(),
        stranger.try_poll(),
        stranger.commit(topic, (0, 1)),
        http.post(f"/groups/{topic}/leave", json={"member_id": "stranger"}),
        http.get(f"/groups/{topic}/assignment", params={"member_id": "stranger"}),
        http.get("/groups/nobody/poll", params={"member_id": "stranger", "generation": 1}),
    ):
        refused(reply, 404, "unknown_member")


def test_the_partitions_of_a_leaver_go_to_the_others(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    first, second = Member(http, topic, topic), Member(http, topic, topic)
    first.join()
    second.join()
    settle(first, second)
    second.leave()
    settle(first)
    assert first.assigned == {0, 1, 2, 3}
    first.leave()
    described = describe(http, topic)
    assert (described["state"], described["members"]) == ("empty", [])
    assert [each["reason"].split()[-1] for each in described["rebalances"]] == ["joined", "joined", "left", "left"]


def test_a_member_that_dies_is_removed_and_its_partitions_go_to_the_others() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http) as http:
        done(http.post("/topics", json={"name": "t", "partitions": 3}), 201)
        living, dying = Member(http, "g", "t"), Member(http, "g", "t")
        living.join()
        dying.join()
        settle(living, dying)
        lost = dying.assigned
        for _ in range(3):
            broker.advance(11)
            living.heartbeat()
        assert living.assigned == {0, 1, 2}
        assert lost < living.assigned
        refused(dying.beat(), 404, "unknown_member")
        refused(dying.try_poll(), 404, "unknown_member")
        refused(dying.commit("t", (min(lost), 1)), 404, "unknown_member")
        reason = describe(http, "g")["rebalances"][-1]["reason"]
        assert reason == f"member {dying.id} was silent for 30 s"
        dying.join()
        settle(living, dying)
        assert dying.assigned | living.assigned == {0, 1, 2}


def test_a_member_that_keeps_what_is_asked_back_is_removed_in_the_end() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http) as http:
        done(http.post("/topics", json={"name": "t", "partitions": 2}), 201)
        greedy, patient = Member(http, "g", "t"), Member(http, "g", "t")
        greedy.join()
        patient.join()
        for _ in range(6):
            assert done(greedy.beat())["state"] == "rebalancing"
            patient.heartbeat()
            assert patient.assigned == set()
            broker.advance(10.1)
        refused(greedy.beat(), 404, "unknown_member")
        patient.heartbeat()
        assert patient.assigned == {0, 1}
        assert "did not revoke" in describe(http, "g")["rebalances"][-1]["reason"]


def test_new_partitions_and_new_topics_reach_the_members(
    http: httpx.Client, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    topic, later = new_topic(1), new_name()
    member = Member(http, topic, topic, later)
    assert names(member.join()["assignment"]) == {f"{topic}-0"}
    done(http.patch(f"/topics/{topic}", json={"partitions": 2}))
    assert names(member.heartbeat()["assignment"]) == {f"{topic}-0", f"{topic}-1"}
    done(http.post("/topics", json={"name": later, "partitions": 1}), 201)
    assert f"{later}-0" in names(member.heartbeat()["assignment"])
    reasons = [each["reason"] for each in describe(http, topic)["rebalances"]]
    assert reasons[1:] == [f"topic {topic} got 1 more partition", f"topic {later} was created"]


def test_members_choose_how_partitions_are_dealt_out(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    first = Member(http, topic, topic, member_id="a", assignor="range")
    second = Member(http, topic, topic, member_id="b", assignor="range")
    first.join()
    second.join()
    settle(first, second)
    assert (first.assigned, second.assigned) == ({0, 1}, {2, 3})
    assert describe(http, topic)["assignor"] == "range"


def test_a_static_member_that_leaves_for_a_while_finds_its_place_again(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(4)
    fixed, other = Member(http, topic, topic, instance_id="one"), Member(http, topic, topic)
    fixed.join()
    other.join()
    settle(fixed, other)
    before, count = fixed.assigned, describe(http, topic)["rebalance_count"]
    imposter = Member(http, topic, topic, instance_id="one")
    reply = http.post(f"/groups/{topic}/join", json={"topics": [topic], "instance_id": "one"})
    refused(reply, 409, "instance_in_use")
    done(http.post(f"/groups/{topic}/leave", json={"member_id": fixed.id, "for_a_while": True}), 204)
    other.heartbeat()
    imposter.join()
    assert imposter.assigned == before
    assert describe(http, topic)["rebalance_count"] == count
    refused(fixed.beat(), 404, "unknown_member")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"topics": []}, "malformed_request"),
        ({}, "malformed_request"),
        ({"topics": ["a b"]}, "invalid_topic_name"),
        ({"topics": ["t"], "assignor": "best"}, "unsupported_assignor"),
        ({"topics": ["t"], "session_timeout": "10s"}, "invalid_session_timeout"),
        ({"topics": ["t"], "session_timeout": "soon"}, "invalid_session_timeout"),
        ({"topics": ["t"], "member_id": ""}, "malformed_request"),
        ({"topics": ["t"], "instance_id": ""}, "malformed_request"),
        ({"topics": ["t"], "topic": "t"}, "malformed_request"),
        ({"topics": "t"}, "malformed_request"),
    ],
)
@pytest.mark.parametrize("way", ["join", "join/cooperative"])
def test_a_member_that_cannot_be_is_refused(http: httpx.Client, body: Any, code: str, way: str) -> None:
    refused(http.post(f"/groups/refused/{way}", json=body), 400, code)
    refused(http.get("/groups/refused"), 404, "unknown_group")


def test_a_session_of_30_seconds_may_be_asked_for(http: httpx.Client, topic: str) -> None:
    for number, session in enumerate(["30s", 30_000, "30000ms"]):
        body = {"topics": [topic], "session_timeout": session}
        done(http.post(f"/groups/{topic}-{number}/join", json=body))


@pytest.mark.parametrize("generation", [0, -1, -2, 2**31, "1"])
def test_impossible_generation_is_malformed(http: httpx.Client, topic: str, generation: Any) -> None:
    member = Member(http, topic, topic)
    member.join()
    member.generation = generation
    refused(member.beat(), 400, "malformed_request")
    assert describe(http, topic)["members"][0]["member_id"] == member.id


@pytest.mark.parametrize("name", ["a/b", "a b", "ümläut", "x" * 250, "join", "%", "?", "#", ".", "..", "\ufffd"])
def test_a_group_may_have_any_name(http: httpx.Client, topic: str, name: str) -> None:
    path = group_path(name)
    told = done(http.post(f"{path}/join", json={"topics": [topic]}))
    assert done(http.get(path))["name"] == name
    with Client(str(http.base_url)) as client:
        client.send(groups.leave(name, told["member_id"]))
        client.send(groups.delete(name))
    refused(http.get(path), 404, "unknown_group")


@pytest.mark.parametrize("written", ["%ff%fe", "a%ffb", "%ed%a0%80", "%ef%bf%bd%ff", "%c3"])
def test_a_name_that_is_not_utf_8_is_refused(http: httpx.Client, topic: str, written: str) -> None:
    refused(http.post(f"/groups/{written}/join", json={"topics": [topic]}), 400, "malformed_request")
    refused(http.get(f"/groups/{written}"), 400, "malformed_request")


def test_a_name_that_is_too_long_is_refused(http: httpx.Client, topic: str) -> None:
    refused(http.post(f"/groups/{'x' * 251}/join", json={"topics": [topic]}), 400, "invalid_group")
