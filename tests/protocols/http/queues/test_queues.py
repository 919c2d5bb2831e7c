"""Queues as users try them: leases, acks, retries and dead letters by HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from random import Random

import httpx
import pytest

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, refused
from tests.protocols.http.queue_kit import Consumer, Got, fill, values
from tests.protocols.http.transaction_kit import Producer

BACKOFF_MAX_S = 1.1 * 60


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose clock may be moved without disturbing other tests."""
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http, timeout=30) as client:
        yield client


def dead_letters(http: httpx.Client, topic: str, count: int) -> list[Got]:
    """Return the dead letters of a topic, once there are so many."""
    found: list[Got] = []
    reader = Consumer(http, f"readers-of-{topic}", f"{topic}.dlq")
    while len(found) < count:
        if http.get(f"/topics/{topic}.dlq").status_code == 200:
            found += reader.receive(wait="10s")
    assert len(found) == count
    return found


def test_two_groups_see_all_messages_independently(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(5))
    for group in ("billing", "shipping"):
        consumer = Consumer(http, f"{group}-{topic}", topic)
        messages = consumer.receive()
        assert values(messages) == ["0", "1", "2", "3", "4"]
        assert {each["delivery_count"] for each in messages} == {1}
        consumer.ack(messages[:2])
        assert consumer.receive() == []


def test_more_consumers_than_partitions_share_a_group_without_overlap(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    fill(http, topic, range(300))
    seen: list[str] = []
    consumers = [Consumer(http, topic, topic, name) for name in ("ann", "bob", "cy")]
    while any(got := [consumer.receive(20) for consumer in consumers]):
        seen += [value for messages in got for value in values(messages)]
    assert sorted(seen, key=int) == [str(number) for number in range(300)]


def test_messages_of_a_consumer_that_died_go_to_others_with_a_raised_count(
    http: httpx.Client, broker: Broker, topic: str
) -> None:
    fill(http, topic, range(3))
    dying, living = Consumer(http, topic, topic, "dying"), Consumer(http, topic, topic, "living")
    lost = dying.receive()
    assert living.receive() == []
    broker.advance(29.9)
    assert living.receive() == []
    broker.advance(0.2)
    again = living.receive(wait="5s")
    assert [(each["value"], each["delivery_count"]) for each in again] == [("0", 2), ("1", 2), ("2", 2)]
    (result, *_) = dying.settle("ack", lost, status=409)
    assert result["error"]["code"] == "stale_receipt"
    living.ack(again)


def test_a_receive_that_waits_is_woken_by_a_publish_a_retry_and_an_expired_lease(
    http: httpx.Client, broker: Broker, topic: str
) -> None:
    consumer = Consumer(http, topic, topic)
    with woken(broker, consumer) as got:
        fill(http, topic, ["first"])
    (message,) = got
    with woken(broker, consumer) as got:
        consumer.settle("nack", [message], delay="10s")
        broker.advance(10.1)
    (message,) = got
    assert (message["value"], message["delivery_count"]) == ("first", 2)
    with woken(broker, consumer) as got:
        broker.advance(30.1)
    assert [each["delivery_count"] for each in got] == [3]


def test_a_receive_may_come_before_its_topic(broker: Broker, http: httpx.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    with woken(broker, Consumer(http, name, name)) as got:
        fill(http, name, ["first"])
    assert values(got) == ["first"]


def test_messages_with_different_delays_do_not_wait_for_each_other(
    http: httpx.Client, broker: Broker, topic: str
) -> None:
    fill(http, topic, range(3))
    consumer = Consumer(http, topic, topic)
    slow, quick, done = consumer.receive()
    consumer.settle("nack", [slow], delay="1h")
    consumer.settle("nack", [quick], delay="5s")
    consumer.ack([done])
    broker.advance(5.1)
    assert values(consumer.receive()) == ["1"]
    broker.advance(3600)
    assert "0" in values(consumer.receive())


def test_the_fourth_failure_of_a_message_makes_a_dead_letter_of_it_and_the_rest_flows_on(
    http: httpx.Client, broker: Broker, topic: str
) -> None:
    publish(http, topic, {"key": "k", "value": "bad", "headers": {"trace": "7"}}, {"value": "good"})
    consumer = Consumer(http, topic, topic)
    for attempt in (1, 2, 3, 4):
        messages = consumer.receive()
        if attempt == 1:
            consumer.ack(messages[1:])
        assert [(each["value"], each["delivery_count"]) for each in messages[:1]] == [("bad", attempt)]
        (result,) = consumer.settle("nack", messages[:1], reason=f"no luck {attempt}")
        assert result["status"] == ("dead" if attempt == 4 else "waiting")
        broker.advance(BACKOFF_MAX_S)
    assert consumer.receive() == []
    (letter,) = dead_letters(http, topic, 1)
    assert (letter["key"], letter["value"], letter["headers"]["trace"]) == ("k", "bad", "7")
    cause = {name.removeprefix("goqueue-dlq-"): text for name, text in letter["headers"].items()}
    assert (cause["reason"], cause["error"], cause["attempts"]) == ("max_retries_exceeded", "no luck 4", "4")
    assert (cause["topic"], cause["partition"], cause["offset"]) == (topic, "0", "0")
    assert (cause["group"], cause["consumer"]) == (topic, "ann")
    assert int(cause["last-delivery"]) > int(cause["first-delivery"]) >= int(cause["timestamp"])


def test_a_rejected_message_is_a_dead_letter_at_once(http: httpx.Client, topic: str) -> None:
    fill(http, topic, ["bad"])
    consumer = Consumer(http, topic, topic)
    consumer.settle("reject", consumer.receive(), reason="no such customer")
    (letter,) = dead_letters(http, topic, 1)
    assert letter["headers"]["goqueue-dlq-reason"] == "rejected"
    assert letter["headers"]["goqueue-dlq-error"] == "no such customer"
    about = http.get(f"/topics/{topic}.dlq").json()
    assert about["config"]["retention.ms"] == str(336 * 3_600_000)


def test_a_lease_can_be_made_longer_and_given_back(http: httpx.Client, broker: Broker, topic: str) -> None:
    fill(http, topic, range(2))
    consumer = Consumer(http, topic, topic)
    messages = consumer.receive(visibility_timeout="10s")
    longer, back = messages
    (extended,) = consumer.settle("visibility", [longer], timeout="1m")
    assert extended["until"] > longer["deadline"]
    consumer.settle("visibility", [back], timeout=0)
    assert [(each["value"], each["delivery_count"]) for each in consumer.receive()] == [("1", 2)]
    broker.advance(59)
    consumer.ack([longer])


def test_each_receipt_of_a_batch_has_its_own_result(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(2))
    consumer = Consumer(http, topic, topic)
    first, second = consumer.receive()
    consumer.ack([first])
    made_up = {"receipt_handle": "nothing"}
    results = consumer.settle("ack", [first, second, made_up, second], status=207)
    codes = [each.get("error", {}).get("code", each["status"]) for each in results]
    assert codes == ["stale_receipt", "done", "invalid_receipt", "stale_receipt"]


def test_a_single_receipt_that_is_refused_is_a_problem_as_any_other(http: httpx.Client, topic: str) -> None:
    fill(http, topic, ["any"])
    (message,) = Consumer(http, topic, topic).receive()
    one = {"receipt_handle": message["receipt_handle"]}
    done = http.post("/messages/ack", json=one)
    assert (done.status_code, done.json()["results"][0]["status"]) == (200, "done")
    for verb, said in (("ack", {}), ("nack", {}), ("reject", {}), ("visibility", {"timeout": "1m"})):
        problem = refused(http.post(f"/messages/{verb}", json=one | said), 409, "stale_receipt")
        assert "is not leased under this receipt any more" in problem["detail"]
        assert problem["hint"]
    refused(http.post("/messages/ack", json={"receipt_handle": "nothing"}), 400, "invalid_receipt")
    refused(http.post("/messages/ack", json={"receipt_handle": "A" * 5000}), 400, "invalid_receipt")


def test_a_consumer_gets_no_more_than_it_may_hold(http: httpx.Client, topic: str) -> None:
    for _ in range(3):
        fill(http, topic, range(500))
    ann, bob = Consumer(http, topic, topic, "ann"), Consumer(http, topic, topic, "bob")
    held = ann.receive(2000)
    assert len(held) == 1000
    assert "'ann' has 1000 messages in flight" in ann.shortfall()
    assert len(bob.receive(2000)) == 500
    ann.ack(held[:10])
    assert ann.receive() == []


def test_messages_of_open_and_aborted_transactions_are_not_delivered(http: httpx.Client, topic: str) -> None:
    fill(http, topic, ["before"])
    producer = http.post("/producers/init", json={"transactional_id": topic}).json()
    named = {"transactional_id": topic, **{name: producer[name] for name in ("producer_id", "epoch")}}
    http.post("/transactions/begin", json=named).raise_for_status()
    body = {**named, "topic": topic, "messages": [{"value": "aborted"}]}
    http.post("/transactions/publish", json=body).raise_for_status()
    consumer = Consumer(http, topic, topic)
    assert values(consumer.receive()) == ["before"]
    http.post("/transactions/abort", json=named).raise_for_status()
    fill(http, topic, ["after"])
    assert values(consumer.receive(wait="5s")) == ["after"]


def test_headers_count_for_how_much_a_receive_brings(http: httpx.Client, topic: str) -> None:
    heavy = {"value": "v", "headers": {"h": "x" * 60_000}, "partition": 0}
    for _ in range(2):
        publish(http, topic, *[heavy] * 100)
    consumer = Consumer(http, topic, topic)
    first = consumer.receive(200)
    assert 100 < len(first) < 150, "8 MiB"
    assert len(first) + len(consumer.receive(200)) == 200
    consumer.settle("nack", first, delay=0)
    assert 100 < len(consumer.receive(200)) < 150


def test_messages_of_open_transactions_are_counted_and_age(http: httpx.Client, broker: Broker, topic: str) -> None:
    consumer = Consumer(http, topic, topic)
    assert consumer.receive() == []
    writer = Producer(http, topic)
    writer.send("begin").raise_for_status()
    writer.publish(topic, {"value": "open", "partition": 0})
    fill(http, topic, ["behind"], partition=0)
    assert consumer.receive() == []
    broker.advance(10)
    told = http.get(f"/queues/{topic}").json()
    assert (told["depth"], told["in_flight"]) == (2, 0)
    (stats,) = [each for each in http.get("/reliability/stats").json()["queues"] if each["group"] == topic]
    assert stats["depth"] == 2
    assert stats["oldest_seconds"] >= 10
    writer.end("commit")
    consumer.ack(consumer.receive(wait="5s"))
    assert consumer.receive() == []
    assert http.get(f"/queues/{topic}").json()["depth"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_few_messages_at_a_time_bring_all_of_many_batches_in_order(http: httpx.Client, topic: str, seed: int) -> None:
    random, expected = Random(seed), []
    writer = Producer(http, topic)
    for number in range(30):
        batch = [{"value": f"{number}.{each}", "partition": 0} for each in range(1 + random.randrange(9))]
        if random.random() < 0.5:
            publish(http, topic, *batch)
            expected += [each["value"] for each in batch]
            continue
        verb = random.choice(["commit", "abort"])
        writer.send("begin").raise_for_status()
        writer.publish(topic, *batch)
        writer.end(verb)
        expected += [each["value"] for each in batch] if verb == "commit" else []
    consumers = [Consumer(http, f"{topic}-{number}", topic) for number in range(2)]
    found: list[list[str]] = [[], []]
    while min(map(len, found)) < len(expected):
        number = random.randrange(2)
        found[number] += values(consumers[number].receive(random.randrange(1, 12)))
    assert found == [expected, expected]


def test_acks_and_leases_outlive_the_broker() -> None:
    with Broker() as broker:
        with httpx.Client(base_url=broker.http) as http:
            publish(http, "t", *({"value": str(number), "partition": 0} for number in range(600)))
            consumer = Consumer(http, "g", "t")
            messages = consumer.receive(500)
            consumer.ack(messages[::2])
            consumer.settle("nack", messages[1:2], delay="1h")
        broker.restart()
        with httpx.Client(base_url=broker.http) as consumer.http:
            # Their consumers still hold them, and can still settle them.
            assert len(consumer.receive(1000)) == 100
            consumer.ack(messages[3:100:2])
            consumer.settle("ack", messages[:1], status=409)
            broker.advance(31)
            again = consumer.receive(1000, wait="5s")
            assert sorted(int(value) for value in values(again)) == [*range(101, 500, 2), *range(500, 600)]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "malformed_request"),
        ({"topic": "none"}, 404, "unknown_topic"),
        ({"topic": "__deliveries"}, 403, "topic_protected"),
        ({"topic": "a", "topics": ["a"]}, 400, "malformed_request"),
        ({"topic": "a", "max": 0}, 400, "malformed_request"),
    ],
)
def test_a_receive_that_makes_no_sense_is_refused(
    http: httpx.Client, topic: str, body: Got, status: int, code: str
) -> None:
    fill(http, topic, ["any"])
    Consumer(http, topic, topic).receive()
    refused(http.post("/groups/g/receive", json=body), status, code)


@pytest.mark.parametrize(
    ("wish", "detail"),
    [
        ({"visibility_timeout": "13h"}, "visibility_timeout is '13h', and may be at most 12h"),
        ({"visibility_timeout": 43_200_001}, "visibility_timeout is 43200001, and may be at most 12h"),
        ({"visibility_timeout": "soon"}, "visibility_timeout is 'soon', which is not a duration"),
        ({"visibility_timeout": -1}, "visibility_timeout is -1, which is not a duration"),
        ({"wait": "90s"}, "wait is '90s', and may be at most 60s"),
        ({"wait": "5s\n"}, "wait is '5s\\n', which is not a duration"),
    ],
)
def test_invalid_duration_is_refused_in_words(http: httpx.Client, wish: Got, detail: str) -> None:
    problem = refused(http.post("/groups/g/receive", json={"topic": "a"} | wish), 400, "malformed_request")
    assert problem["detail"] == detail


def test_a_group_is_of_one_kind(http: httpx.Client, topic: str) -> None:
    http.post(f"/groups/{topic}/join", json={"topics": [topic]}).raise_for_status()
    refused(http.post(f"/groups/{topic}/receive", json={"topic": topic}), 409, "inconsistent_group_protocol")
    Consumer(http, f"queue-{topic}", topic).receive()
    joined = http.post(f"/groups/queue-{topic}/join", json={"topics": [topic]})
    refused(joined, 409, "inconsistent_group_protocol")
    problem = refused(http.delete(f"/groups/queue-{topic}"), 409, "inconsistent_group_protocol")
    assert problem["hint"] == "goqueue queue delete and DELETE /queues/{group} forget queue groups"
    assert http.delete(f"/queues/queue-{topic}").status_code == 204


class woken:  # noqa: N801 - reads as a sentence
    """Receive in a thread while something happens; at the end there is what came."""

    def __init__(self, broker: Broker, consumer: Consumer) -> None:
        self._broker = broker
        self._got: list[Got] = []
        self._thread = threading.Thread(target=self._receive, args=(consumer,))

    def _receive(self, consumer: Consumer) -> None:
        with httpx.Client(base_url=self._broker.http, timeout=30) as http:
            waiting = Consumer(http, consumer.group, consumer.topic, consumer.name)
            self._got += waiting.receive(wait="20s")

    def __enter__(self) -> list[Got]:
        self._thread.start()
        return self._got

    def __exit__(self, *_: object) -> None:
        self._thread.join(30)
        assert self._got, "it was not woken"
