"""Looking after queue groups by HTTP: settings, order by key, pauses, moves, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from goqueue.broker.events import QueuePaused
from goqueue.testing import Broker
from tests.protocols.http.expect import publish, refused
from tests.protocols.http.queue_kit import Consumer, alter, fill, values


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose clock may be moved without disturbing other tests."""
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http, timeout=30) as client:
        yield client


def describe(http: httpx.Client, group: str) -> dict[str, Any]:
    reply = http.get(f"/queues/{group}")
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def test_a_group_tells_what_is_in_it(http: httpx.Client, broker: Broker, topic: str) -> None:
    fill(http, topic, range(10))
    ann, bob = Consumer(http, topic, topic, "ann"), Consumer(http, topic, topic, "bob")
    done, waiting, *_ = ann.receive(4)
    ann.ack([done])
    ann.settle("nack", [waiting], delay="1h")
    bob.receive(2)
    broker.advance(10)
    told = describe(http, topic)
    assert (told["depth"], told["in_flight"], told["consumers"]) == (9, 4, {"ann": 2, "bob": 2})
    assert 10 <= told["oldest_seconds"] < 60
    (partition,) = told["partitions"]
    places = {name: partition[name] for name in ("floor", "cursor", "end_offset", "backlog")}
    assert places == {"floor": 1, "cursor": 6, "end_offset": 10, "backlog": 4}
    states = {name: partition[name] for name in ("leased", "waiting", "ready", "held", "dead")}
    assert states == {"leased": 4, "waiting": 1, "ready": 0, "held": 0, "dead": 0}
    assert topic in [each["group"] for each in http.get("/queues").json()["queues"]]


def test_settings_change_how_messages_are_delivered(http: httpx.Client, broker: Broker, topic: str) -> None:
    letters = f"{topic}-letters"
    settings = {"visibility_timeout": "5s", "retries": 0, "in_flight_max": 2, "dead_letters": letters}
    shown = alter(http, topic, **settings)["settings"]
    assert settings.items() <= shown.items()
    assert (shown["backoff"], shown["ordering"]) == ("1s", "none")
    fill(http, topic, range(3))
    consumer = Consumer(http, topic, topic)
    first, second = consumer.receive()
    assert consumer.settle("nack", [first], reason="once is enough")[0]["status"] == "dead"
    broker.advance(5.1)
    consumer.settle("ack", [second], status=409)
    # Without a retry, a lease that has ended was the only one.
    assert values(consumer.receive()) == ["2"]
    causes: list[str] = []
    reader = Consumer(http, f"{topic}-reader", letters)
    while len(causes) < 2:
        if http.get(f"/topics/{letters}").status_code == 200:
            causes += [each["headers"]["goqueue-dlq-reason"] for each in reader.receive(wait="10s")]
    assert causes == ["max_retries_exceeded", "lease_expired"]


@pytest.mark.parametrize(
    ("settings", "detail"),
    [
        ({"retries": -1}, "retries is -1, and may be 0 to 1000"),
        (
            {"visibility_timeout": "0s", "breaker_ratio": 2},
            "visibility_timeout is 0ms, and may be 100ms to 12h; breaker_ratio is 2",
        ),
        (
            {"retries": -1, "dead_letters": "no/name"},
            "1000; dead_letters: 'no/name' cannot be the name of a topic (1 to",
        ),
        ({"dead_letters": "__catalog"}, "is the broker's own; name another topic for dead letters, or none for"),
        ({"visibility_timeout": "13h"}, "visibility_timeout is '13h', and may be at most 12h"),
        ({"backoff": "soon"}, "backoff is 'soon', which is not a duration"),
        ({"backoff_max": -1}, "backoff_max is -1, which is not a duration"),
        ({"visibility": "1s"}, "unknown field 'visibility'"),
        ({"start": "tomorrow"}, "is not a time"),
        ({"ordering": "fifo"}, "Invalid enum value 'fifo'"),
    ],
)
def test_settings_that_make_no_sense_are_all_told(
    http: httpx.Client, topic: str, settings: dict[str, object], detail: str
) -> None:
    reply = http.patch(f"/queues/{topic}", json=settings)
    assert reply.status_code == 400
    assert detail in reply.json()["detail"]
    refused(http.get(f"/queues/{topic}"), 404, "unknown_queue")


def test_null_takes_any_setting_back_to_its_default(http: httpx.Client, topic: str) -> None:
    fresh = alter(http, topic)["settings"]
    others = {
        "visibility_timeout": "1m",
        "retries": 5,
        "backoff": "2s",
        "backoff_factor": 3,
        "backoff_max": "5m",
        "in_flight_max": 10,
        "ordering": "key",
        "start": "latest",
        "dead_letters": f"{topic}-letters",
        "breaker_ratio": 0.1,
    }
    changed = alter(http, topic, **others)["settings"]
    assert all(changed[name] != fresh[name] for name in fresh)
    assert alter(http, topic, retries=None)["settings"] == {**changed, "retries": fresh["retries"]}
    assert alter(http, topic, **dict.fromkeys(others))["settings"] == fresh


def test_a_group_that_would_get_its_own_dead_letters_is_refused(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(1))
    alter(http, topic, dead_letters=topic)
    reply = http.post(f"/groups/{topic}/receive", json={"topic": topic})
    assert "would get them as messages" in refused(reply, 409, "conflict")["detail"]
    alter(http, topic, dead_letters="")
    assert values(Consumer(http, topic, topic).receive()) == ["0"]
    reply = http.patch(f"/queues/{topic}", json={"dead_letters": topic})
    assert "consume it with another group" in refused(reply, 409, "conflict")["hint"]
    alter(http, topic, dead_letters=f"{topic}-letters")


def test_with_order_by_key_only_the_busy_key_waits(http: httpx.Client, topic: str) -> None:
    alter(http, topic, ordering="key")
    for number in range(3):
        publish(http, topic, {"key": "a", "value": f"a{number}"}, {"key": "b", "value": f"b{number}"})
    fill(http, topic, ["free"])
    ann, bob = Consumer(http, topic, topic, "ann"), Consumer(http, topic, topic, "bob")
    first = ann.receive()
    assert values(first) == ["a0", "b0", "free"]
    assert bob.receive() == []
    assert describe(http, topic)["partitions"][0]["held"] == 4
    ann.ack(first[:1])
    (second,) = bob.receive()
    assert second["value"] == "a1"
    # One that failed keeps its key back, until it is done.
    bob.settle("nack", [second], delay=0)
    again = bob.receive()
    assert values(again) == ["a1"]
    bob.ack(again)
    ann.ack(first[1:])
    assert sorted(values(bob.receive())) == ["a2", "b1"]


@pytest.mark.parametrize(("start", "expected"), [("earliest", ["old", "new"]), ("latest", ["new"])])
def test_group_starts_at_its_start_setting(http: httpx.Client, topic: str, start: str, expected: list[str]) -> None:
    fill(http, topic, ["old"])
    alter(http, topic, start=start)
    consumer = Consumer(http, topic, topic)
    consumer.receive(visibility_timeout="1ms")
    fill(http, topic, ["new"])
    got = consumer.receive(wait="5s")
    while len(got) < len(expected):
        got += consumer.receive(wait="5s")
    assert sorted(values(got)) == sorted(expected)


def test_a_group_begins_at_a_time_and_a_later_partition_at_its_first_message(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(retention_ms=-1)
    publish(http, topic, *({"value": str(n), "timestamp": 1_000_000_000_000 + n * 1000} for n in range(5)))
    alter(http, topic, start="2001-09-09T01:46:43Z")
    assert describe(http, topic)["settings"]["start"] == 1_000_000_003_000
    assert alter(http, topic, start="1000000003000")["settings"]["start"] == 1_000_000_003_000
    consumer = Consumer(http, topic, topic)
    assert values(consumer.receive()) == ["3", "4"]
    http.patch(f"/topics/{topic}", json={"partitions": 2}).raise_for_status()
    publish(http, topic, {"value": "there", "partition": 1})
    assert values(consumer.receive()) == ["there"]


def test_a_receive_may_say_in_which_order_the_group_delivers_that_it_makes(http: httpx.Client, topic: str) -> None:
    for value in ("a", "b"):
        publish(http, topic, {"key": "k", "value": value})
    consumer = Consumer(http, topic, topic)
    assert values(consumer.receive(ordering="key")) == ["a"]
    assert describe(http, topic)["settings"]["ordering"] == "key"
    assert values(consumer.receive(ordering="none")) == []
    assert describe(http, topic)["settings"]["ordering"] == "key", "that of a group that is there stays"


def test_a_paused_group_gets_nothing_and_says_why(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(2))
    consumer = Consumer(http, topic, topic)
    (first,) = consumer.receive(1)
    told = http.post(f"/queues/{topic}/pause", json={"reason": "the database moves"}).json()
    assert (told["paused"], told["pause_reason"]) == (True, "the database moves")
    assert "the database moves" in consumer.shortfall()
    consumer.ack([first])
    assert http.post(f"/queues/{topic}/resume", json={}).json()["paused"] is False
    assert values(consumer.receive()) == ["1"]


def test_a_group_that_rejects_too_much_pauses_and_a_resume_gives_it_another_chance(
    http: httpx.Client, broker: Broker, topic: str
) -> None:
    alter(http, topic, breaker_ratio=0.3)
    fill(http, topic, range(300))
    consumer = Consumer(http, topic, topic)
    consumer.ack(consumer.receive(80))
    consumer.settle("reject", consumer.receive(20), reason="bad")
    assert describe(http, topic)["paused"] is False
    held = consumer.receive(30)
    consumer.settle("reject", held, reason="bad")
    told = describe(http, topic)
    assert told["pause_reason"] == "50 of the last 130 messages became dead letters, more than a share of 0.3"
    assert told["pause_reason"] in consumer.shortfall()
    # A pause by hand is no news.
    http.post(f"/queues/{topic}/pause", json={}).raise_for_status()
    events = [event for event in broker.events if isinstance(event, QueuePaused) and event.group == topic]
    assert [event.reason for event in events] == [told["pause_reason"]]
    http.post(f"/queues/{topic}/resume", json={}).raise_for_status()
    consumer.settle("reject", consumer.receive(10), reason="bad")
    assert describe(http, topic)["paused"] is False


def test_seek_and_purge_move_a_group_and_old_receipts_mean_nothing(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(5))
    consumer = Consumer(http, topic, topic)
    before = consumer.receive()
    consumer.ack(before[:2])
    http.post(f"/queues/{topic}/seek", json={"topic": topic, "offset": 1}).raise_for_status()
    consumer.settle("ack", before[3:4], status=409)
    again = consumer.receive()
    assert [(each["value"], each["delivery_count"]) for each in again] == [(str(n), 1) for n in range(1, 5)]
    told = http.post(f"/queues/{topic}/purge", json={"topic": topic}).json()
    assert (told["depth"], told["in_flight"]) == (0, 0)
    assert consumer.receive() == []
    http.post(f"/queues/{topic}/seek", json={"topic": topic, "to": "earliest"}).raise_for_status()
    assert len(consumer.receive()) == 5


def test_a_dry_run_tells_what_a_seek_would_do_and_changes_nothing(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    for number in range(10):
        publish(http, topic, {"value": str(number), "partition": number % 2})
    consumer = Consumer(http, topic, topic)
    messages = [each for each in consumer.receive(10) if each["partition"] == 0]
    consumer.ack(messages[1:3])

    def seek(**more: object) -> list[tuple[int, ...]]:
        told = http.post(f"/queues/{topic}/seek", json={"topic": topic, **more}).json()
        assert told["dry_run"] is more.get("dry_run", False)
        names = ("partition", "cursor", "offset", "in_flight", "skipped", "again")
        return [tuple(each[name] for name in names) for each in told["moves"]]

    before = describe(http, topic)
    plan = [(0, 5, 4, 3, 2, 1), (1, 5, 4, 5, 4, 1)]
    assert seek(offset=4, dry_run=True) == plan
    assert seek(offset=4, partitions=[1], dry_run=True) == plan[1:]
    assert seek(to="earliest", partitions=[0], dry_run=True) == [(0, 5, 0, 3, 0, 5)]
    after = describe(http, topic)
    assert [each["floor"] for each in after["partitions"]] == [each["floor"] for each in before["partitions"]]
    assert seek(offset=4, partitions=[1]) == plan[1:]
    assert [each["cursor"] for each in describe(http, topic)["partitions"]] == [5, 4]
    for trouble in ({"partitions": [2]}, {"partitions": [2], "dry_run": True}):
        refused(
            http.post(f"/queues/{topic}/seek", json={"topic": topic, "offset": 0, **trouble}), 404, "unknown_partition"
        )


def test_a_group_that_is_not_there_is_not_moved_and_not_made(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(3))
    for verb, more in (("seek", {"to": "latest"}), ("seek", {"to": "latest", "dry_run": True}), ("purge", {})):
        refused(http.post(f"/queues/{topic}/{verb}", json={"topic": topic, **more}), 404, "unknown_queue")
    refused(http.get(f"/queues/{topic}"), 404, "unknown_queue")


def test_start_of_a_group_applies_to_a_topic(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(3))
    alter(http, topic, retries=1)
    http.post(f"/queues/{topic}/seek", json={"topic": topic, "offset": 2}).raise_for_status()
    assert values(Consumer(http, topic, topic).receive()) == ["2"]


def test_a_deleted_group_begins_anew(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(2))
    consumer = Consumer(http, topic, topic)
    messages = consumer.receive()
    assert http.delete(f"/queues/{topic}").status_code == 204
    refused(http.get(f"/queues/{topic}"), 404, "unknown_queue")
    consumer.settle("ack", messages, status=409)
    assert [each["delivery_count"] for each in consumer.receive()] == [1, 1]


def test_recreated_topic_is_a_new_queue(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(3))
    consumer = Consumer(http, topic, topic)
    before = consumer.receive()
    http.delete(f"/topics/{topic}").raise_for_status()
    refused(http.post(f"/groups/{topic}/receive", json={"topic": topic}), 404, "unknown_topic")
    fill(http, topic, ["another"])
    assert values(consumer.receive()) == ["another"]
    consumer.settle("ack", before[:1], status=409)
