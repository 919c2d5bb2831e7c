"""Offsets of groups by HTTP: who may set them, how far a group is, and moving them with a preview."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, refused
from tests.protocols.http.group_kit import Member, describe, done, fill


def commit(http: httpx.Client, group: str, topic: str, *offsets: tuple[int, int], **more: Any) -> httpx.Response:
    """Commit offsets without a member."""
    rows = [{"topic": topic, "partition": index, "offset": offset} for index, offset in offsets]
    return http.post(f"/groups/{group}/offsets", json={"offsets": rows, **more})


def reset(http: httpx.Client, name: str, to: str, **more: Any) -> Any:
    """Move offsets and return the moves."""
    told = done(http.post(f"/groups/{name}/offsets/reset", json={"to": to, **more}))
    assert (told["group"], told["dry_run"]) == (name, more.get("dry_run", False))
    return told["moves"]


def committed(http: httpx.Client, group: str) -> dict[int, int]:
    """Return the committed offset of each partition."""
    return {each["partition"]: each["offset"] for each in done(http.get(f"/groups/{group}/offsets"))["offsets"]}


# -- committing


def test_a_queue_group_has_no_offsets_to_set(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    fill(http, topic, 3)
    done(http.post(f"/groups/{topic}/receive", json={"topic": topic}))
    refused(commit(http, topic, topic, (0, 1)), 409, "inconsistent_group_protocol")
    for is_dry_run in (True, False):
        body = {"to": "earliest", "topics": [topic], "dry_run": is_dry_run}
        problem = refused(http.post(f"/groups/{topic}/offsets/reset", json=body), 409, "inconsistent_group_protocol")
        assert "queue seek" in problem["hint"]


def test_offsets_of_group_without_members_can_be_set_without_membership(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    fill(http, topic, 3, 3)
    told = done(commit(http, topic, topic, (0, 1), (1, 2)))
    assert told == {"results": [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]}
    assert committed(http, topic) == {0: 1, 1: 2}
    done(commit(http, topic, topic, (0, 0)))
    assert committed(http, topic) == {0: 0, 1: 2}
    described = describe(http, topic)
    assert (described["kind"], described["state"], described["members"]) == ("offsets", "empty", [])


def test_each_offset_has_a_result_of_its_own(http: httpx.Client, topic: str) -> None:
    reply = commit(http, topic, topic, (0, 1), (7, 1))
    assert reply.status_code == 207
    fine, wrong = reply.json()["results"]
    assert "error" not in fine
    assert (wrong["partition"], wrong["error"]["code"], wrong["error"]["status"]) == (7, "unknown_topic", 404)
    reply = commit(http, topic, "nowhere", (0, 1))
    assert (reply.status_code, reply.json()["results"][0]["error"]["code"]) == (404, "unknown_topic")
    assert committed(http, topic) == {0: 1}


def test_a_member_commits_what_it_has_and_nothing_else(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic, other = new_topic(2), new_topic(1)
    first, second = Member(http, topic, topic), Member(http, topic, topic)
    first.join()
    second.join()
    first.heartbeat()
    second.heartbeat()
    (mine,), (others,) = first.assigned, second.assigned
    reply = first.commit(topic, (mine, 5), (others, 5))
    assert reply.status_code == 207
    results = reply.json()["results"]
    assert "error" not in results[0]
    assert results[1]["error"]["code"] == "stale_member_epoch"
    assert first.commit(other, (0, 5)).status_code == 409
    refused(commit(http, topic, topic, (mine, 9)), 404, "unknown_member")
    assert committed(http, topic)[mine] == 5


def test_a_note_is_kept_beside_the_offset(http: httpx.Client, topic: str) -> None:
    row = {"topic": topic, "partition": 0, "offset": 1, "metadata": "batch 7"}
    done(http.post(f"/groups/{topic}/offsets", json={"offsets": [row]}))
    (told,) = done(http.get(f"/groups/{topic}/offsets"))["offsets"]
    assert told["metadata"] == "batch 7"
    assert told["committed_at"].endswith("Z")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"offsets": []},
        {"offsets": [{"topic": "t", "partition": 0}]},
        {"offsets": [{"topic": "t", "partition": 0, "offset": -1}]},
        {"offsets": [{"topic": "t", "partition": -1, "offset": 0}]},
        {"offsets": [{"topic": "t", "partition": 0, "offset": 0}], "member_id": "m"},
        {"offsets": [{"topic": "t", "partition": 0, "offset": 0}], "generation": 1},
        {"offsets": [{"topic": "t", "partition": 0, "offset": 0, "metadata": "x" * 1025}]},
    ],
)
def test_offsets_that_cannot_be_meant_are_refused(http: httpx.Client, body: Any) -> None:
    refused(http.post("/groups/malformed/offsets", json=body), 400, "malformed_request")
    refused(http.get("/groups/malformed/offsets"), 404, "unknown_group")


# -- lag


def test_lag_is_shown_in_messages_and_in_seconds() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http) as http:
        done(http.post("/topics", json={"name": "t", "partitions": 3}), 201)
        fill(http, "t", 5, 5)
        broker.advance(100)
        publish(http, "t", {"value": "young", "partition": 0})
        done(commit(http, "g", "t", (0, 2), (1, 5), (2, 0)))
        broker.advance(20)
        told = done(http.get("/groups/g/offsets"))
        old, read, empty = told["offsets"]
        assert (old["offset"], old["start_offset"], old["end_offset"], old["lag"]) == (2, 0, 6, 4)
        assert 120 <= old["lag_seconds"] < 150
        assert (read["lag"], read["lag_seconds"]) == (0, 0)
        assert (empty["lag"], empty["lag_seconds"]) == (0, 0)
        assert told["lag"] == 4
        assert told["lag_seconds"] == old["lag_seconds"]
        done(commit(http, "g", "t", (0, 5)))
        (young, *_) = done(http.get("/groups/g/offsets"))["offsets"]
        assert young["lag"] == 1
        assert 20 <= young["lag_seconds"] < 50
        (listed,) = done(http.get("/groups"))["groups"]
        assert listed == {"name": "g", "kind": "offsets", "state": "empty", "members": 0, "lag": 1}


def test_lag_does_not_count_what_is_gone() -> None:
    with Broker(default_segment_bytes=1024) as broker, httpx.Client(base_url=broker.http) as http:
        done(http.post("/topics", json={"name": "t", "partitions": 1, "config": {"retention.ms": 1000}}), 201)
        for number in range(4):
            publish(http, "t", {"value": f"{number}" * 600})
        done(commit(http, "g", "t", (0, 0)))
        broker.advance(3600)
        (told,) = done(http.get("/groups/g/offsets"))["offsets"]
        assert told["start_offset"] > 0
        assert told["lag"] == told["end_offset"] - told["start_offset"]


def test_a_group_that_has_committed_nothing_has_no_lag_rather_than_none_unread(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    fill(http, topic, 3, 2)
    member = Member(http, topic, topic)
    member.join()
    assert lags(http, topic) == {None}
    done(member.commit(topic, (0, 3)))
    # Nothing is unread where it is known, but the other partition has messages.
    assert lags(http, topic) == {None}
    done(member.commit(topic, (0, 1)))
    assert lags(http, topic) == {2}, "at least these are unread"
    done(member.commit(topic, (0, 3), (1, 2)))
    assert lags(http, topic) == {0}
    member.leave()
    assert lags(http, topic) == {0}


def test_a_group_that_left_without_a_commit_has_no_lag(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    member = Member(http, topic, topic)
    member.join()
    member.poll()
    member.leave()
    assert lags(http, topic) == {None}


def lags(http: httpx.Client, group: str) -> set[int | None]:
    """Return the lag of a group from all replies that have it."""
    (listed,) = [each for each in done(http.get("/groups"))["groups"] if each["name"] == group]
    described, offsets = describe(http, group), done(http.get(f"/groups/{group}/offsets"))
    return {listed["lag"], described["lag"], offsets["lag"]}


def test_nothing_is_said_about_lag_where_nothing_is_committed(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    member = Member(http, topic, topic, client_id="reader")
    member.join()
    (told,) = done(http.get(f"/groups/{topic}/offsets"))["offsets"]
    assert (told["offset"], told["lag"], told["lag_seconds"], told["committed_at"]) == (None, None, None, None)
    assert told["owner"] == {"member_id": member.id, "client_id": "reader", "host": "127.0.0.1"}


# -- moving


def test_a_preview_says_what_a_reset_does(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    fill(http, topic, 10, 10, 10)
    done(commit(http, topic, topic, (0, 4), (1, 10)))
    done(commit(http, f"{topic}-other", topic, (1, 2), (2, 8)))
    before = committed(http, topic)
    for to, more in (
        ("earliest", {}),
        ("latest", {}),
        ("offset", {"offset": 6}),
        ("time", {"time": 0}),
        ("group", {"group": f"{topic}-other"}),
        ("latest", {"topics": [topic]}),
        ("earliest", {"partitions": [{"topic": topic, "partition": 2}]}),
    ):
        now = committed(http, topic)
        preview = reset(http, topic, to, dry_run=True, **more)
        assert committed(http, topic) == now, "a preview changes nothing"
        assert reset(http, topic, to, **more) == preview
        after = committed(http, topic)
        assert {move["partition"]: move["to"] for move in preview}.items() <= after.items()
        assert {move["partition"]: move["from"] for move in preview} == {
            move["partition"]: now.get(move["partition"]) for move in preview
        }
    assert before != committed(http, topic)


def test_a_move_tells_what_is_skipped_and_what_is_read_again(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    fill(http, topic, 10, 10, 10)
    done(commit(http, topic, topic, (0, 4), (1, 9)))
    moves = reset(http, topic, "offset", offset=6, topics=[topic], dry_run=True)
    told = {"skipped": 0, "read_again": 0, "unread": 4, "to": 6, "topic": topic}
    assert moves == [
        {**told, "partition": 0, "from": 4, "skipped": 2},
        {**told, "partition": 1, "from": 9, "read_again": 3},
        {**told, "partition": 2, "from": None},
    ]


def test_an_offset_beyond_the_ends_becomes_the_nearest_one(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 5)
    (move,) = reset(http, topic, "offset", offset=99, topics=[topic])
    assert (move["to"], move["unread"]) == (5, 0)
    assert committed(http, topic) == {0: 5}


def test_a_time_is_the_first_message_that_is_not_older(http: httpx.Client, topic: str) -> None:
    publish(http, topic, *({"value": "x", "timestamp": 1_700_000_000_000 + second * 1000} for second in range(5)))
    (move,) = reset(http, topic, "time", time="2023-11-14T22:13:22Z", topics=[topic], dry_run=True)
    assert move["to"] == 2
    (move,) = reset(http, topic, "time", time=1_700_000_002_001, topics=[topic], dry_run=True)
    assert move["to"] == 3
    (move,) = reset(http, topic, "time", time=1_800_000_000_000, topics=[topic], dry_run=True)
    assert move["to"] == 5


def test_offsets_of_group_with_members_are_not_moved(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 5)
    member = Member(http, topic, topic)
    member.join()
    done(member.commit(topic, (0, 3)))
    refused(http.post(f"/groups/{topic}/offsets/reset", json={"to": "earliest"}), 409, "group_not_empty")
    (move,) = reset(http, topic, "earliest", dry_run=True)
    assert (move["from"], move["to"]) == (3, 0)
    assert committed(http, topic) == {0: 3}
    member.leave()
    reset(http, topic, "earliest")
    member = Member(http, topic, topic)
    member.join()
    assert len(member.values()) == 5


def test_partitions_that_cannot_be_moved_have_errors_beside_the_others(http: httpx.Client, topic: str) -> None:
    partitions = [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 9}]
    reply = http.post(f"/groups/{topic}/offsets/reset", json={"to": "earliest", "partitions": partitions})
    assert reply.status_code == 207
    fine, wrong = reply.json()["moves"]
    assert (fine["to"], "error" in fine) == (0, False)
    assert (wrong["to"], wrong["error"]["code"]) == (None, "unknown_partition")
    assert committed(http, topic) == {0: 0}


def test_a_reset_needs_to_know_what_it_is_about(http: httpx.Client, topic: str, new_name: Callable[[], str]) -> None:
    group = new_name()
    path = f"/groups/{group}/offsets/reset"
    refused(http.post(path, json={"to": "earliest"}), 404, "unknown_group")
    refused(http.post(path, json={"to": "earliest", "topics": ["nowhere"]}), 404, "unknown_topic")
    refused(http.post(path, json={"to": "group", "group": "nobody", "topics": [topic]}), 404, "unknown_group")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"to": "middle"},
        {"to": "offset"},
        {"to": "time"},
        {"to": "group"},
        {"to": "earliest", "offset": 1},
        {"to": "offset", "offset": 1, "time": 5},
        {"to": "offset", "offset": -1},
        {"to": "time", "time": "soon"},
        {"to": "time", "time": -1},
        {"to": "earliest", "topics": []},
        {"to": "earliest", "partitions": []},
        {"to": "earliest", "dry_run": "yes"},
        {"to": "group", "group": ""},
    ],
)
def test_a_reset_that_cannot_be_meant_is_refused(http: httpx.Client, body: Any) -> None:
    reply = http.post("/groups/malformed/offsets/reset", json=body)
    refused(reply, 400, "invalid_group" if body.get("group") == "" else "malformed_request")
