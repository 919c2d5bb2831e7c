"""Redrives by HTTP: dead letters are published again as they were, once, by a job that can be watched and cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from goqueue.client import Client, dead_letters, queues, topics
from goqueue.testing import Broker
from tests.protocols.http.expect import publish, read, refused
from tests.protocols.http.expect import values as values_read
from tests.protocols.http.letter_kit import (
    bury,
    ended,
    find,
    letters,
    moves,
    noise,
    preview,
    produce_zipped,
    redrive,
    start,
    values,
    wait_for,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose clock may be moved without disturbing other tests."""
    with Broker(auto_create_topics=False) as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http, timeout=30) as client:
        yield client


def test_letters_go_back_to_where_they_came_from_as_they_were(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(3)
    bury(http, topic, ["a", "b"], key="k", headers={"trace": "abc"}, partition=2)
    done = redrive(http, topic)
    assert (done["state"], done["progress"], done["reason"]) == ("done", 1.0, "all letters were looked at")
    assert done["moves"] == moves(moved=2)
    again = read(http, topic, 2, offset=2)["messages"]
    assert [(each["key"], each["value"]) for each in again] == [("k", "a"), ("k", "b")]
    assert {str(each["headers"]) for each in again} == {"{'trace': 'abc', 'goqueue-redrives': '1'}"}


def test_bytes_of_any_kind_are_kept(http: httpx.Client, topic: str) -> None:
    headers = [{"name": "h", "value_base64": "AP8="}, {"name": "h", "value": None}]
    publish(http, topic, {"key_base64": "AP8=", "value_base64": "/wA=", "headers": headers})
    died = {"goqueue-dlq-reason": "x", "goqueue-dlq-topic": topic}
    http.post("/topics", json={"name": f"{topic}.dlq", "partitions": 1}).raise_for_status()
    more = [{"name": name, "value": value} for name, value in died.items()]
    publish(http, f"{topic}.dlq", {"key_base64": "AP8=", "value_base64": "/wA=", "headers": headers + more})
    redrive(http, topic)
    first, again = read(http, topic)["messages"]
    assert (again["key_base64"], again["value_base64"]) == (first["key_base64"], first["value_base64"])
    assert again["headers_base64"] == [*first["headers_base64"], ["goqueue-redrives", "MQ=="]]


def test_republished_dead_letters_are_hidden_and_not_republished_again(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a", "b"])
    assert redrive(http, topic, first_offset=1)["moves"] == moves(moved=1)
    assert values(letters(http, topic)) == ["a"]
    shown = letters(http, topic, redriven="true", order="oldest")["letters"]
    assert [each["redriven"] for each in shown] == [False, True]
    assert redrive(http, topic)["moves"] == moves(moved=1, redriven=1)
    assert redrive(http, topic)["moves"] == moves(redriven=2)
    assert redrive(http, topic, repeat=True)["moves"] == moves(moved=2)
    totals = letters(http, topic, totals="true")["totals"]
    assert totals == {"letters": 2, "redriven": 2, "by_reason": {}, "cut": False, "unreadable": 0}


def test_a_message_that_dies_again_and_again_is_skipped_in_the_end(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["poison"])
    for number in range(1, 4):
        assert redrive(http, topic)["moves"]["moved"] == 1
        _reject_all(http, topic)
        assert letters(http, topic)["letters"][0]["cause"]["redrives"] == number
    done = redrive(http, topic)
    assert done["moves"] == moves(redriven=3, looping=1)
    assert preview(http, topic, max_redrives=4)["moves"] == moves(moved=1, redriven=3)
    assert redrive(http, topic, force=True)["moves"] == moves(moved=1, redriven=3)


def _reject_all(http: httpx.Client, topic: str) -> None:
    body = {"topic": topic, "max": 10, "wait": "10s"}
    (message,) = http.post(f"/groups/{topic}-group/receive", json=body).json()["messages"]
    http.post("/messages/reject", json={"receipt_handle": message["receipt_handle"]}).raise_for_status()
    wait_for(lambda: letters(http, topic)["letters"])


def test_a_redrive_takes_only_what_is_meant(http: httpx.Client, topic: str) -> None:
    for name in "abcd":
        bury(http, topic, [name], key=name)
    assert preview(http, topic) == {"topic": f"{topic}.dlq", "moves": moves(moved=4), "cut": False, "error": ""}
    chosen: list[tuple[dict[str, Any], int]] = [
        ({"key": "a"}, 1),
        ({"key_base64": "YQ=="}, 1),
        ({"reasons": ["rejected", "x"]}, 4),
        ({"reasons": ["x"]}, 0),
        ({"groups": [f"{topic}-group"]}, 4),
        ({"groups": ["x"]}, 0),
        ({"first_offset": 1, "last_offset": 2}, 2),
        ({"until": 1}, 0),
        ({"since": 1}, 4),
        ({"source": "x"}, 0),
        ({"limit": 3}, 3),
    ]
    for terms, count in chosen:
        assert preview(http, topic, **terms)["moves"]["moved"] == count, terms
    done = redrive(http, topic, limit=2)
    assert (done["state"], done["progress"]) == ("done", 1.0)
    assert done["reason"] == "as many letters as were asked for are moved"
    assert (done["moves"]["moved"], done["reason"]) == (2, "as many letters as were asked for are moved")
    assert redrive(http, topic, key="c")["moves"]["moved"] == 1
    assert values_read(read(http, topic, offset=4)) == ["a", "b", "c"]


def test_letters_may_go_to_another_topic(http: httpx.Client, topic: str, new_topic: Callable[..., str]) -> None:
    target = new_topic(1)
    bury(http, topic, ["a"])
    assert redrive(http, topic, target=target)["moves"] == moves(moved=1)
    assert values_read(read(http, target)) == ["a"]
    dlq = f"{topic}.dlq"
    refused(http.post(f"/topics/{topic}/dlq/redrive", json={"target": "nobody"}), 404, "unknown_topic")
    refused(http.post(f"/topics/{topic}/dlq/redrive", json={"target": "__deliveries"}), 403, "topic_protected")
    refused(http.post(f"/topics/{topic}/dlq/redrive", json={"target": dlq}), 400, "invalid")


def test_letters_that_can_never_be_published_are_counted(
    http: httpx.Client, new_topic: Callable[..., str], topic: str
) -> None:
    bury(http, topic, [noise(3000), "small"])
    target = new_topic(1, max_message_bytes=2000)
    done = redrive(http, topic, target=target)
    assert (done["state"], done["moves"]) == ("done", moves(moved=1, failed=1))
    assert "the limit is 2000" in done["error"]
    # One that was not moved can be moved elsewhere.
    assert redrive(http, topic)["moves"] == moves(moved=1, redriven=1)


def test_letters_come_back_however_large_they_are_and_as_they_were() -> None:
    # Beyond all limits for clients, and repeated where only some codecs look: the topic takes it as it was sent.
    key, value = b"k" * 100_000, noise(400_000).encode() * 8
    headers = [("trace", b"t" * 50_000), ("trace", None), ("more", noise(150_000).encode())]
    with Broker() as broker, Client(broker.http) as client, httpx.Client(base_url=broker.http, timeout=30) as http:
        client.send(topics.create("orders", partitions=2))
        produce_zipped(broker, "orders", key, value, headers)
        for redriven in (0, 1):
            (received,) = client.send(queues.receive("billing", "orders", wait_s=10)).messages
            client.send(queues.reject(received))
            wait_for(lambda: client.send(dead_letters.browse("orders")).letters)
            (letter,) = client.send(dead_letters.browse("orders")).letters
            assert (letter.message.key, letter.message.value) == (key, value)
            assert list(letter.message.headers)[:3] == headers
            assert redrive(http, "orders")["moves"] == moves(moved=1, redriven=redriven)
        (again,) = client.send(queues.receive("billing", "orders", wait_s=10)).messages
        assert (again.key, again.value, again.message.partition) == (key, value, 1)
        assert list(again.message.headers) == [*headers, ("goqueue-redrives", b"2")]


def test_letters_are_compressed_if_their_target_does_not_take_them_otherwise(
    http: httpx.Client, new_topic: Callable[..., str], topic: str
) -> None:
    bury(http, topic, ["x" * 3000], headers={"trace": "t" * 60_000})
    target = new_topic(1, max_message_bytes=2000)
    assert redrive(http, topic, target=target)["moves"] == moves(moved=1)
    assert values_read(read(http, target)) == ["x" * 3000]


def test_letters_of_a_topic_that_is_gone_fail_and_keep_no_other_back(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    gone, there = new_topic(1), new_topic(1)
    dlq = f"{there}.dlq"
    http.post("/topics", json={"name": dlq, "partitions": 1}).raise_for_status()
    for source in (gone, there):
        publish(http, dlq, {"value": "v", "headers": {"goqueue-dlq-reason": "r", "goqueue-dlq-topic": source}})
    publish(http, dlq, {"value": "v"})
    http.delete(f"/topics/{gone}").raise_for_status()
    done = redrive(http, dlq)
    assert (done["moves"], done["state"]) == (moves(moved=1, failed=2), "done")


@pytest.mark.parametrize("source", [None, "", "gone", "no name", "__deliveries"])
def test_a_preview_counts_letters_that_can_never_be_published_as_the_redrive_does(
    http: httpx.Client, topic: str, source: str | None
) -> None:
    bury(http, topic, ["fine"])
    cause = {} if source is None else {"goqueue-dlq-reason": "r", "goqueue-dlq-topic": source}
    publish(http, f"{topic}.dlq", {"value": "v", "headers": cause})
    told = preview(http, f"{topic}.dlq")
    done = redrive(http, f"{topic}.dlq")
    assert told["moves"] == done["moves"] == moves(moved=1, failed=1)
    assert told["error"] == done["error"] != ""


def test_a_redrive_makes_no_topic_anew_and_a_preview_makes_none() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http, timeout=30) as http:
        for name in ("orders", "orders.dlq"):
            http.post("/topics", json={"name": name, "partitions": 1}).raise_for_status()
        for source in ("gone", "orders"):
            headers = {"goqueue-dlq-reason": "r", "goqueue-dlq-topic": source}
            publish(http, "orders.dlq", {"value": source, "headers": headers})
        assert preview(http, "orders")["moves"] == moves(moved=1, failed=1)
        assert redrive(http, "orders")["moves"] == moves(moved=1, failed=1)
        again: dict[str, Any] = {"repeat": True, "target": "target"}
        assert preview(http, "orders", **again)["moves"] == moves(moved=2)
        for target in ("no name", "__deliveries", "orders.dlq"):
            reply = http.post("/topics/orders/dlq/redrive", json={"dry_run": True, "target": target})
            assert reply.status_code in {400, 403}
        assert {"gone", "target"}.isdisjoint(each["name"] for each in http.get("/topics").json()["topics"])
        # What is named when a redrive begins is made, and once only.
        job = start(http, "orders", **again, rate=0.01)
        wait_for(lambda: find(http, job["id"])["moves"]["moved"] == 1)
        http.delete("/topics/target").raise_for_status()
        broker.advance(200)
        assert ended(http, job)["moves"] == moves(moved=1, failed=1)
        assert http.get("/topics/target").status_code == 404


def test_letters_that_come_later_are_not_taken(http: httpx.Client, broker: Broker, topic: str) -> None:
    bury(http, topic, ["a", "b"])
    job = start(http, topic, rate=1)
    publish(http, f"{topic}.dlq", {"value": "late"})
    broker.advance(10)
    assert ended(http, job)["moves"] == moves(moved=2)
    assert values(letters(http, topic)) == ["late"]


def test_a_rate_is_kept_by_the_clock(http: httpx.Client, broker: Broker, topic: str) -> None:
    bury(http, topic, [str(number) for number in range(6)])
    job = start(http, topic, rate=0.01)
    wait_for(lambda: find(http, job["id"])["moves"]["moved"] == 1)
    for number in range(2, 7):
        broker.advance(50)
        assert find(http, job["id"])["moves"]["moved"] == number - 1
        broker.advance(51)
        wait_for(lambda number=number: find(http, job["id"])["moves"]["moved"] == number)
    broker.advance(200)
    assert ended(http, job)["state"] == "done"


def test_one_redrive_of_the_same_letters_runs_at_a_time(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a", "b"])
    job = start(http, topic, rate=0.001)
    problem = refused(http.post(f"/topics/{topic}.dlq/dlq/redrive", json={}), 409, "redrive_running")
    assert job["id"] in problem["detail"]
    wait_for(lambda: find(http, job["id"])["moves"]["moved"] == 1)
    cancelled = http.delete(f"/dlq/redrives/{job['id']}")
    assert cancelled.json()["state"] in {"cancelling", "cancelled"}
    done = ended(http, job)
    assert (done["state"], done["moves"]) == ("cancelled", moves(moved=1))
    # Once more changes nothing.
    assert http.delete(f"/dlq/redrives/{job['id']}").json() == done
    assert redrive(http, topic)["moves"] == moves(moved=1, redriven=1)
    listed = [each["id"] for each in http.get("/dlq/redrives").json()["redrives"]]
    assert job["id"] in listed[1:]
    refused(http.get("/dlq/redrives/" + "0" * 32), 404, "unknown_redrive")
    refused(http.delete("/dlq/redrives/" + "0" * 32), 404, "unknown_redrive")


def test_a_redrive_ends_with_its_topic(http: httpx.Client, broker: Broker, topic: str) -> None:
    bury(http, topic, ["a", "b"])
    job = start(http, topic, rate=0.001)
    http.delete(f"/topics/{topic}.dlq").raise_for_status()
    broker.advance(2000)
    done = ended(http, job)
    assert (done["state"], done["reason"]) == ("failed", f"topic '{topic}.dlq' was deleted")
    # Another topic of that name has other letters; the message that was published again dies once more.
    bury(http, topic, ["c"], more=done["moves"]["moved"])
    assert redrive(http, topic)["moves"] == moves(moved=1 + done["moves"]["moved"])


def test_a_redrive_goes_on_after_a_restart() -> None:
    with Broker() as broker:
        with httpx.Client(base_url=broker.http, timeout=30) as http:
            http.post("/topics", json={"name": "orders", "partitions": 1}).raise_for_status()
            bury(http, "orders", ["a", "b", "c"])
            job = start(http, "orders", rate=0.01)
            wait_for(lambda: find(http, job["id"])["moves"]["moved"] == 1)
        broker.restart()
        with httpx.Client(base_url=broker.http, timeout=30) as http:
            wait_for(lambda: find(http, job["id"])["moves"]["moved"] == 2)
            broker.advance(500)
            assert ended(http, job)["moves"] == moves(moved=3)
            assert values_read(read(http, "orders", offset=3)) == ["a", "b", "c"]


def test_messages_of_a_redrive_are_seen_once_it_has_committed_them(http: httpx.Client, topic: str) -> None:
    http.post("/topics", json={"name": f"{topic}.dlq", "partitions": 1}).raise_for_status()
    cause = {"goqueue-dlq-reason": "rejected", "goqueue-dlq-topic": topic}
    publish(http, f"{topic}.dlq", *({"value": str(number), "headers": cause} for number in range(1200)))
    assert redrive(http, topic)["moves"] == moves(moved=1200)
    found: list[str] = []
    offset = 0
    while True:
        page = read(http, topic, offset=offset, limit=10_000)
        found += values_read(page)
        offset = page["next_offset"]
        if offset >= page["end_offset"]:
            break
    assert sorted(found, key=int) == [str(number) for number in range(1200)]
