"""Requests of a transaction that come twice: with a number, they are answered as they were."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from goqueue.testing import Broker
from tests.protocols.http.expect import read, refused, values
from tests.protocols.http.transaction_kit import Producer


@pytest.fixture
def producer(http: httpx.Client, new_name: Callable[[], str]) -> Producer:
    return Producer(http, new_name())


def test_a_numbered_request_is_published_once_however_often_it_comes(
    http: httpx.Client, producer: Producer, topic: str
) -> None:
    first = producer.publish(topic, "a", "b", sequence=0)
    assert producer.publish(topic, "a", "b", sequence=0) == first
    second = producer.publish(topic, "c", sequence=1)
    assert producer.publish(topic, "c", sequence=1) == second
    producer.end("commit")
    assert values(read(http, topic)) == ["a", "b", "c"]


def test_without_a_number_a_request_that_comes_twice_is_stored_twice(
    http: httpx.Client, producer: Producer, topic: str
) -> None:
    producer.publish(topic, "a")
    producer.publish(topic, "a")
    producer.end("commit")
    assert values(read(http, topic)) == ["a", "a"]


def test_repetitions_at_the_same_time_are_one_request(http: httpx.Client, producer: Producer, topic: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        repeated = [threads.submit(producer.publish, topic, "once", sequence=0) for _ in range(8)]
        results = [each.result() for each in repeated]
    assert all(each == results[0] for each in results)
    producer.end("commit")
    assert values(read(http, topic)) == ["once"]


def test_numbers_follow_each_other(producer: Producer, topic: str) -> None:
    body = {"topic": topic, "messages": [{"value": "x"}]}
    refused(producer.send("publish", **body, sequence=1), 409, "out_of_order_sequence")
    producer.publish(topic, "x", sequence=0)
    producer.publish(topic, "x", sequence=1)
    for number in (0, 3):
        refused(producer.send("publish", **body, sequence=number), 409, "out_of_order_sequence")
    refused(producer.send("publish", **body, sequence=-1), 400, "malformed_request")


def test_each_transaction_counts_from_the_beginning(http: httpx.Client, producer: Producer, topic: str) -> None:
    for verb in ("abort", "commit"):
        producer.publish(topic, verb, sequence=0)
        producer.end(verb)
    assert values(read(http, topic)) == ["commit"]


def test_offsets_and_partitions_need_no_number(http: httpx.Client, producer: Producer, topic: str) -> None:
    producer.send("add-offsets", group="g", offsets=[{"topic": topic, "partition": 0, "offset": 1}]).raise_for_status()
    producer.send("add-partition", partitions=[{"topic": topic, "partition": 0}]).raise_for_status()
    producer.publish(topic, "x", sequence=0)
    producer.end("commit")
    assert values(read(http, topic)) == ["x"]


def test_a_transaction_is_numbered_from_its_first_request_or_not_at_all(producer: Producer, topic: str) -> None:
    producer.publish(topic, "x")
    body = {"topic": topic, "messages": [{"value": "x"}]}
    problem = refused(producer.send("publish", **body, sequence=0), 409, "out_of_order_sequence")
    assert "abort" in problem["hint"]


def test_a_number_is_free_again_if_nothing_was_stored(http: httpx.Client, producer: Producer, topic: str) -> None:
    body = {"messages": [{"value": "x"}], "sequence": 0}
    refused(producer.send("publish", topic="no topic", **body), 400, "invalid_topic_name")
    producer.publish(topic, "x", sequence=0)
    producer.end("commit")
    assert values(read(http, topic)) == ["x"]


def test_messages_that_failed_fail_again_under_the_same_number(producer: Producer, topic: str) -> None:
    body = {"topic": topic, "messages": [{"value": "x"}, {"value": "y", "partition": 9}], "sequence": 0}
    first, again = producer.send("publish", **body), producer.send("publish", **body)
    assert first.status_code == again.status_code == 207
    assert first.json() == again.json()


def test_repeated_request_gets_the_same_results(http: httpx.Client, producer: Producer) -> None:
    topic = f"{producer.id}-three"
    http.post("/topics", json={"name": topic, "partitions": 3}).raise_for_status()
    stamped = "2026-01-02T03:04:05Z"
    messages = [
        {"key": "a", "value": "1"},
        {"key": "b", "value": "2", "timestamp": stamped},
        {"value": "3", "partition": 9},
        {"key": "a", "value": "4", "timestamp": stamped},
        {"value": "5", "delay": "1s"},
        {"key": "c", "value": "6"},
    ]
    first = producer.send("publish", topic=topic, messages=messages, sequence=0)
    again = producer.send("publish", topic=topic, messages=messages, sequence=0)
    assert first.status_code == again.status_code == 207
    assert [("error" in each) for each in first.json()["results"]] == [False, False, True, False, True, False]
    assert first.json() == again.json()


@pytest.mark.parametrize("change", [{"value": "other"}, {"key": "other"}, {"headers": {"h": "1"}}, {"partition": 0}])
def test_the_same_number_with_something_else_in_it_is_refused(
    http: httpx.Client, producer: Producer, topic: str, change: dict[str, object]
) -> None:
    body = {"topic": topic, "messages": [{"value": "first", **change}], "sequence": 0}
    producer.publish(topic, "first", sequence=0)
    problem = refused(producer.send("publish", **body), 409, "out_of_order_sequence")
    assert "abort" in problem["hint"]
    producer.publish(topic, "second", sequence=1)
    producer.end("commit")
    assert values(read(http, topic)) == ["first", "second"]


def test_the_same_number_for_another_topic_is_refused(http: httpx.Client, producer: Producer, topic: str) -> None:
    producer.publish(topic, "x", sequence=0)
    body = {"topic": f"{topic}-other", "messages": [{"value": "x"}], "sequence": 0}
    refused(producer.send("publish", **body), 409, "out_of_order_sequence")


def test_a_zombie_is_not_told_of_what_it_published(http: httpx.Client, producer: Producer, topic: str) -> None:
    producer.publish(topic, "x", sequence=0)
    Producer(http, producer.id)
    body = {"topic": topic, "messages": [{"value": "x"}], "sequence": 0}
    refused(producer.send("publish", **body), 409, "transaction_fenced")


def test_after_a_restart_a_number_that_may_have_been_used_is_refused() -> None:
    with Broker() as broker:
        with httpx.Client(base_url=broker.http, timeout=30) as http:
            fresh, used = Producer(http, "fresh"), Producer(http, "used")
            fresh.send("add-offsets", group="g", offsets=[{"topic": "t", "partition": 0, "offset": 1}])
            used.publish("t", {"value": "used", "partition": 0}, sequence=0)
        broker.restart()
        with httpx.Client(base_url=broker.http, timeout=30) as http:
            fresh.http = used.http = http
            for number in (0, 1):
                body = {"topic": "t", "messages": [{"value": "used"}], "sequence": number}
                refused(used.send("publish", **body), 409, "out_of_order_sequence")
            used.end("abort")
            used.publish("t", {"value": "used", "partition": 0}, sequence=0)
            used.end("commit")
            fresh.publish("t", {"value": "fresh", "partition": 0}, sequence=0)
            fresh.end("commit")
            assert values(read(http, "t", 0)) == ["used", "fresh"]
