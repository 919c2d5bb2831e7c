"""Reading by HTTP: from an offset or a time, in pages, waiting for what is not there yet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from time import monotonic

import httpx
import pytest
from confluent_kafka import Producer

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, read, refused, values

URL = "/topics/{}/partitions/{}/messages"


def fill(http: httpx.Client, topic: str, count: int, first_timestamp: int = 1000) -> None:
    """Publish `0`, `1`, ... a second apart."""
    publish(http, topic, *({"value": f"{each}", "timestamp": first_timestamp + 1000 * each} for each in range(count)))


def test_a_message_comes_with_all_that_is_known_of_it(http: httpx.Client, topic: str) -> None:
    publish(http, topic, {"key": "k", "value": "v", "headers": {"h": "x"}, "timestamp": 5})
    assert read(http, topic) == {
        "messages": [
            {
                "topic": topic,
                "partition": 0,
                "offset": 0,
                "timestamp": 5,
                "key": "k",
                "value": "v",
                "headers": {"h": "x"},
            }
        ],
        "next_offset": 1,
        "start_offset": 0,
        "end_offset": 1,
    }


def test_without_a_place_reading_starts_at_the_start(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    assert values(read(http, topic)) == ["0", "1", "2"]


def test_pages_follow_each_other_without_gap_or_repetition(http: httpx.Client, topic: str) -> None:
    for _ in range(3):
        fill(http, topic, 11)
    offset, seen = 0, []
    while (page := read(http, topic, offset=offset, limit=4))["messages"]:
        assert len(page["messages"]) <= 4
        seen += [message["offset"] for message in page["messages"]]
        offset = page["next_offset"]
    assert seen == list(range(33))
    assert (page["next_offset"], page["start_offset"], page["end_offset"]) == (33, 0, 33)


def test_reading_can_begin_in_the_middle_of_a_batch(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 10)
    page = read(http, topic, offset=7, limit=2)
    assert values(page) == ["7", "8"]
    assert page["next_offset"] == 9


def test_reading_ends_at_the_asked_bytes_but_brings_one_message(http: httpx.Client, topic: str) -> None:
    publish(http, topic, *({"value": "x" * 100} for _ in range(20)))
    assert len(read(http, topic, max_bytes=350)["messages"]) == 3
    assert len(read(http, topic, max_bytes="1KB")["messages"]) == 10
    assert len(read(http, topic, max_bytes=1)["messages"]) == 1
    assert len(read(http, topic, max_bytes=0)["messages"]) == 1
    assert len(read(http, topic, max_bytes="1MiB")["messages"]) == 20


def test_a_compressed_batch_does_not_open_to_more_than_was_asked_for(
    broker: Broker, http: httpx.Client, topic: str
) -> None:
    """A batch of a few hundred bytes may hold megabytes; a reply holds what its reader asked for."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd", "linger.ms": 1000})
    for _ in range(100):
        producer.produce(topic, b"x" * 100_000)
    producer.flush(30)
    assert http.get(f"/topics/{topic}/partitions").json()["partitions"][0]["size_bytes"] < 100_000
    page = read(http, topic, 0, max_bytes="250KB")
    assert [len(value) for value in values(page)] == [100_000, 100_000]
    assert page["next_offset"] == 2
    assert len(read(http, topic, 0, offset=50, limit=2)["messages"]) == 2


# -- by time


@pytest.mark.parametrize(
    ("timestamp", "first"),
    [
        ("0", "0"),
        ("1000", "0"),
        ("1001", "1"),
        ("5000", "4"),
        ("1970-01-01T00:00:05Z", "4"),
        ("1970-01-01T00:00:04.001Z", "4"),
        ("1970-01-01T02:00:05+02:00", "4"),
    ],
)
def test_reading_can_begin_at_a_time(http: httpx.Client, topic: str, timestamp: str, first: str) -> None:
    fill(http, topic, 10)
    assert values(read(http, topic, timestamp=timestamp, limit=1)) == [first]


def test_a_plus_that_was_not_escaped_is_understood(http: httpx.Client, topic: str) -> None:
    moment = datetime.fromtimestamp(5, UTC).astimezone(timezone(timedelta(hours=2)))
    fill(http, topic, 10)
    reply = http.get(f"{URL.format(topic, 0)}?timestamp={moment.isoformat()}&limit=1")
    assert values(reply.json()) == ["4"]


def test_a_time_after_all_messages_is_the_end(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    page = read(http, topic, timestamp="2038-01-19T00:00:00Z")
    assert page["messages"] == []
    assert page["next_offset"] == 3


# -- waiting; `test_waiting` does more of that, in virtual time


def test_a_read_that_waits_is_answered_when_a_message_comes(http: httpx.Client, topic: str, broker: Broker) -> None:
    with ThreadPoolExecutor(1) as threads, httpx.Client(base_url=broker.http, timeout=60) as other:
        began = monotonic()
        waiting = threads.submit(read, other, topic, offset=0, wait="60s")
        publish(http, topic, {"value": "new"})
        assert values(waiting.result()) == ["new"]
        assert monotonic() - began < 59


# -- mistakes


def test_an_offset_out_of_range_tells_the_range(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    assert read(http, topic, offset=3)["messages"] == []
    began = monotonic()
    problem = refused(http.get(URL.format(topic, 0), params={"offset": 4, "wait": "60s"}), 416, "offset_out_of_range")
    assert monotonic() - began < 59
    assert (problem["offset"], problem["start_offset"], problem["end_offset"]) == (4, 0, 3)


def test_an_offset_that_retention_has_taken_is_out_of_range() -> None:
    settings = {"default_retention_ms": 1000, "default_segment_bytes": 1024}
    with Broker(**settings) as broker, httpx.Client(base_url=broker.http) as http:
        for number in range(8):
            publish(http, "t", {"value": "x" * 500, "partition": 0, "key": f"{number}"})
        broker.advance(3600)
        start = http.get("/topics/t/partitions").json()["partitions"][0]["start_offset"]
        assert start > 0
        problem = refused(http.get(URL.format("t", 0), params={"offset": 0}), 416, "offset_out_of_range")
        assert problem["start_offset"] == start
        assert read(http, "t")["start_offset"] == start


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("offset=-1", "$.offset"),
        ("offset=x", "$.offset"),
        ("offset=", "$.offset"),
        (f"offset={2**63}", "$.offset"),
        ("limit=0", "$.limit"),
        ("limit=10001", "$.limit"),
        ("wait=61s", "$.wait"),
        ("wait=60001", "$.wait"),
        ("wait=-1", "$.wait"),
        ("wait=soon", "$.wait"),
        ("max_bytes=many", "$.max_bytes"),
        ("timestamp=yesterday", "yesterday"),
        ("timestamp=2023-11-14T22:13:20", "2023"),
        ("offset=0&timestamp=0", "both"),
        ("offset=0&offset=1", "twice"),
        ("partition=0", "partition"),
        ("limit=%ff", "UTF-8"),
        ("limit=" + "1" * 9000, "bytes"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(http: httpx.Client, topic: str, query: str, place: str) -> None:
    problem = refused(http.get(f"{URL.format(topic, 0)}?{query}"), 400, "malformed_request")
    assert place in problem["detail"]


def test_partitions_and_topics_must_exist(http: httpx.Client, topic: str) -> None:
    refused(http.get(URL.format("none", 0)), 404, "unknown_topic")
    refused(http.get(URL.format(topic, 1)), 404, "unknown_partition")
    refused(http.get(URL.format(topic, 1), params={"offset": 0, "wait": "60s"}), 404, "unknown_partition")
    refused(http.get(URL.format(topic, 2**40)), 400, "malformed_request")
    for wrong in ("x", "-1", "1.0", "٣"):
        refused(http.get(URL.format(topic, wrong)), 400, "malformed_request")
