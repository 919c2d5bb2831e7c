"""Transactions by HTTP, as those meet them who publish in one: what is seen when, who is fenced, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, read, refused, values
from tests.protocols.http.transaction_kit import Producer, committed_offset, stable_offset


@pytest.fixture
def producer(http: httpx.Client, new_name: Callable[[], str]) -> Producer:
    return Producer(http, new_name())


def test_nothing_is_seen_before_the_commit_and_all_of_it_after(
    http: httpx.Client, producer: Producer, new_topic: Callable[..., str]
) -> None:
    one, two = new_topic(2), new_topic()
    begun = producer.asked("/transactions/begin", **producer.identity)
    assert (begun["state"], begun["time_left_ms"]) == ("Empty", None)
    results = producer.publish(one, {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    assert [(each["partition"], each["offset"]) for each in results] == [(0, 0), (1, 0)]
    producer.publish(one, {"value": "c", "partition": 0})
    producer.publish(two, "d")
    publish(http, one, {"value": "behind it", "partition": 0})
    assert read(http, one, 0)["messages"] == read(http, one, 1)["messages"] == read(http, two)["messages"] == []
    assert stable_offset(http, one) == 0
    producer.end("commit")
    assert values(read(http, one, 0)) == ["a", "c", "behind it"]
    assert values(read(http, one, 1)) == ["b"]
    assert values(read(http, two)) == ["d"]
    # The marker has an offset, too.
    assert stable_offset(http, one) == 4


def test_aborted_messages_are_never_seen(http: httpx.Client, producer: Producer, topic: str) -> None:
    producer.publish(topic, "lost", "too")
    publish(http, topic, {"value": "kept"})
    producer.end("abort")
    producer.publish(topic, "kept as well")
    producer.end("commit")
    assert values(read(http, topic)) == ["kept", "kept as well"]
    assert stable_offset(http, topic) == 6


def test_every_transaction_has_an_epoch_of_its_own(producer: Producer, topic: str) -> None:
    epochs = [producer.epoch]
    for verb in ("commit", "abort", "commit"):
        producer.publish(topic, "x")
        producer.end(verb)
        epochs.append(producer.epoch)
    assert epochs == [0, 1, 2, 3]


def test_a_second_producer_with_the_same_id_fences_the_first(
    http: httpx.Client, producer: Producer, topic: str
) -> None:
    producer.publish(topic, "of a zombie")
    second = Producer(http, producer.id)
    assert second.producer_id == producer.producer_id
    assert second.epoch > producer.epoch
    for verb, body in (
        ("begin", {}),
        ("publish", {"topic": topic, "messages": [{"value": "late"}]}),
        ("add-partition", {"partitions": [{"topic": topic, "partition": 0}]}),
        ("add-offsets", {"group": "g", "offsets": [{"topic": topic, "partition": 0, "offset": 1}]}),
        ("commit", {}),
        ("abort", {}),
    ):
        refused(producer.send(verb, **body), 409, "transaction_fenced")
    refused(
        http.post(f"/producers/{producer.producer_id}/heartbeat", json={"epoch": producer.epoch}),
        409,
        "transaction_fenced",
    )
    second.publish(topic, "of the second")
    second.end("commit")
    assert values(read(http, topic)) == ["of the second"]


def test_an_end_whose_reply_was_lost_can_be_asked_for_again(http: httpx.Client, producer: Producer, topic: str) -> None:
    for verb, other in (("commit", "abort"), ("abort", "commit")):
        producer.publish(topic, verb)
        before = producer.identity
        producer.end(verb)
        assert http.post(f"/transactions/{verb}", json=before).json() == producer.identity
        refused(http.post(f"/transactions/{other}", json=before), 409, "invalid_transaction_state")
        producer.publish(topic, "next")
        # By now its producer has heard of the new epoch: this is an old request, and not a repetition.
        refused(http.post(f"/transactions/{verb}", json=before), 409, "transaction_fenced")
        producer.end("commit")
    assert values(read(http, topic)) == ["commit", "next", "next"]


def test_an_empty_transaction_can_end_either_way(http: httpx.Client, producer: Producer, topic: str) -> None:
    before = producer.identity
    producer.end("commit")
    assert producer.identity == before
    producer.end("abort")
    assert producer.epoch == before["epoch"] + 1
    refused(http.post("/transactions/commit", json=before), 409, "invalid_transaction_state")
    producer.publish(topic, "x")
    producer.end("commit")
    assert values(read(http, topic)) == ["x"]


def test_one_transaction_at_a_time(producer: Producer, topic: str) -> None:
    producer.publish(topic, "x")
    problem = refused(producer.send("begin"), 409, "invalid_transaction_state")
    assert "commit or abort" in problem["hint"]
    producer.end("commit")
    assert producer.send("begin").status_code == 200


def test_a_heartbeat_tells_how_much_time_is_left(http: httpx.Client, new_name: Callable[[], str], topic: str) -> None:
    producer = Producer(http, new_name(), timeout="30s")
    assert producer.stand() == {**producer.identity, "state": "Empty", "timeout_ms": 30_000, "time_left_ms": None}
    producer.publish(topic, "x")
    stands = producer.stand()
    assert stands["state"] == "Ongoing"
    assert 0 < stands["time_left_ms"] <= 30_000
    refused(http.post("/producers/999999999/heartbeat", json={"epoch": 0}), 404, "unknown_transaction")
    refused(http.post("/producers/none/heartbeat", json={"epoch": 0}), 400, "malformed_request")


def test_a_transaction_that_takes_too_long_is_aborted_by_the_broker() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http, timeout=30) as http:
        producer = Producer(http, "slow", timeout="10s")
        producer.publish("t", {"value": "late", "partition": 0})
        publish(http, "t", {"value": "waiting behind it", "partition": 0})
        broker.advance(9)
        assert read(http, "t", 0)["messages"] == []
        assert producer.stand()["time_left_ms"] < 1500
        broker.advance(1.5)
        assert values(read(http, "t", 0, wait="10s")) == ["waiting behind it"]
        refused(producer.send("commit"), 409, "transaction_fenced")
        second = Producer(http, "slow", timeout="10s")
        second.publish("t", {"value": "in time", "partition": 0})
        second.end("commit")
        assert values(read(http, "t", 0)) == ["waiting behind it", "in time"]


def test_offsets_are_set_with_the_commit_and_only_then(
    broker: Broker, http: httpx.Client, producer: Producer, topic: str
) -> None:
    group = f"{producer.id}-group"
    for verb, offset, expected in (("abort", 3, None), ("commit", 5, 5), ("abort", 9, 5)):
        sent = {"topic": topic, "partition": 0, "offset": offset, "metadata": "kept"}
        reply = producer.send("add-offsets", group=group, offsets=[sent])
        assert (reply.status_code, reply.json()) == (200, {"results": [{"topic": topic, "partition": 0}]})
        producer.publish(topic, verb)
        producer.end(verb)
        assert committed_offset(broker, group, topic) == expected


def test_each_offset_has_a_result_of_its_own(producer: Producer, topic: str) -> None:
    good = {"topic": topic, "partition": 0, "offset": 1}
    reply = producer.send("add-offsets", group="g", offsets=[good, {**good, "partition": 7}])
    assert reply.status_code == 207
    fine, wrong = reply.json()["results"]
    assert fine == {"topic": topic, "partition": 0}
    assert (wrong["partition"], wrong["error"]["code"]) == (7, "unknown_topic")
    reply = producer.send("add-offsets", group="g", offsets=[{**good, "partition": 7}])
    assert reply.status_code == 404
    assert "results" in reply.json()
    refused(producer.send("add-offsets", group="", offsets=[good]), 400, "invalid_group")
    refused(producer.send("add-offsets", group="g", offsets=[]), 400, "malformed_request")


def test_a_member_that_its_group_does_not_know_cannot_send_offsets(
    broker: Broker, producer: Producer, topic: str
) -> None:
    offsets = [{"topic": topic, "partition": 0, "offset": 1}]
    group = f"{producer.id}-group"
    reply = producer.send("add-offsets", group=group, offsets=offsets, member_id="zombie", generation=3)
    refused(reply, 404, "unknown_member")
    producer.end("commit")
    assert committed_offset(broker, group, topic) is None


def test_each_message_has_a_result_of_its_own(http: httpx.Client, producer: Producer, topic: str) -> None:
    messages = [{"value": "a"}, {"value": "b", "partition": 7}, {"value": "c", "value_base64": "YQ=="}, {"value": "d"}]
    reply = producer.send("publish", topic=topic, messages=messages)
    assert reply.status_code == 207
    results = reply.json()["results"]
    assert [each.get("offset") for each in results] == [0, None, None, 1]
    assert [each["error"]["code"] for each in results[1:3]] == ["unknown_partition", "invalid_record"]
    producer.end("commit")
    assert values(read(http, topic)) == ["a", "d"]


def test_more_than_fits_into_one_batch_is_published_in_order(
    http: httpx.Client, producer: Producer, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2, max_message_bytes=2000)
    sent = [{"value": f"{number:3}" + "x" * 500, "partition": int(number == 4)} for number in range(9)]
    results = producer.publish(topic, *sent)
    assert [(each["partition"], each["offset"]) for each in results if each["partition"] == 0] == [
        (0, offset) for offset in range(8)
    ]
    producer.publish(topic, {"value": "last", "partition": 0})
    producer.end("commit")
    assert [value[:3].strip() for value in values(read(http, topic, 0))] == [
        "0",
        "1",
        "2",
        "3",
        "5",
        "6",
        "7",
        "8",
        "las",
    ]


def test_a_topic_is_made_on_demand_but_never_one_of_the_brokers_own(
    http: httpx.Client, producer: Producer, new_name: Callable[[], str]
) -> None:
    name = new_name()
    (result,) = producer.publish(name, {"key": "k", "value": "x"})
    for own in ("__transactions", "__consumer_offsets", "__catalog"):
        reply = producer.send("publish", topic=own, messages=[{"value": "x"}])
        assert reply.json()["code"] in {"topic_protected", "unknown_topic"}
        reply = producer.send("add-partition", partitions=[{"topic": own, "partition": 0}])
        refused(reply, 403, "topic_protected")
    producer.end("commit")
    assert values(read(http, name, result["partition"])) == ["x"]


def test_partitions_are_added_all_or_none(http: httpx.Client, producer: Producer, topic: str) -> None:
    known, unknown = {"topic": topic, "partition": 0}, {"topic": topic, "partition": 7}
    refused(producer.send("add-partition", partitions=[known, unknown]), 404, "unknown_topic")
    assert producer.stand()["state"] == "Empty"
    assert producer.send("add-partition", partitions=[known]).status_code == 204
    assert http.get(f"/transactions/{producer.id}").json()["partitions"] == [known]
    producer.end("commit")


def test_unused_transactional_id_is_unknown(http: httpx.Client, new_name: Callable[[], str]) -> None:
    body = {"transactional_id": new_name(), "producer_id": 0, "epoch": 0}
    for verb in ("begin", "commit", "abort"):
        refused(http.post(f"/transactions/{verb}", json=body), 409, "producer_mismatch")
    published = {**body, "topic": "t", "messages": [{"value": "x"}]}
    refused(http.post("/transactions/publish", json=published), 409, "producer_mismatch")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "malformed_request"),
        ({"transactional_id": ""}, "invalid"),
        ({"transactional_id": "x" * 1001}, "invalid"),
        ({"transactional_id": "x", "timeout": "0"}, "invalid_transaction_timeout"),
        ({"transactional_id": "x", "timeout": 0}, "invalid_transaction_timeout"),
        ({"transactional_id": "x", "timeout": "16m"}, "invalid_transaction_timeout"),
        ({"transactional_id": "x", "timeout": "soon"}, "invalid"),
        ({"transactional_id": "x", "time": "1s"}, "malformed_request"),
    ],
)
def test_a_producer_that_cannot_be_is_refused(http: httpx.Client, body: Any, code: str) -> None:
    refused(http.post("/producers/init", json=body), 400, code)


def test_a_transaction_goes_on_after_a_restart() -> None:
    with Broker() as broker:
        with httpx.Client(base_url=broker.http, timeout=30) as http:
            producer = Producer(http, "survivor")
            producer.publish("t", {"value": "before", "partition": 0})
        broker.restart()
        with httpx.Client(base_url=broker.http, timeout=30) as http:
            producer.http = http
            assert read(http, "t", 0)["messages"] == []
            assert producer.stand()["state"] == "Ongoing"
            producer.publish("t", {"value": "after", "partition": 0})
            producer.end("commit")
            assert values(read(http, "t", 0)) == ["before", "after"]
