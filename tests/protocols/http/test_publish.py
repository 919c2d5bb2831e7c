"""Publishing by HTTP: which bytes are stored where, and what becomes of each message."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import httpx
import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.broker import Broker as CoreBroker
from goqueue.broker.messages.publish import PartitionTurns
from goqueue.broker.topics.admin import create_topic, delete_topic
from goqueue.model.broker_options import BrokerOptions
from goqueue.model.partitioners import murmur2_partition
from goqueue.testing import Broker, RecordingSink, SimDisk, Simulation, simulate
from tests.protocols.http.expect import publish, read, refused, values


def stored(http: httpx.Client, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values as bytes."""

    def content(message: dict[str, Any], name: str) -> bytes | None:
        if f"{name}_base64" in message:
            return base64.b64decode(message[f"{name}_base64"])
        text: str | None = message[name]
        return None if text is None else text.encode()

    return [(content(each, "key"), content(each, "value")) for each in read(http, topic)["messages"]]


def test_results_say_where_each_message_is(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    results = publish(
        http, topic, {"value": "a", "partition": 2}, {"value": "b", "partition": 0}, {"value": "c", "partition": 2}
    )
    assert [(result["partition"], result["offset"]) for result in results] == [(2, 0), (0, 0), (2, 1)]
    assert values(read(http, topic, 2)) == ["a", "c"]
    assert values(read(http, topic, 0)) == ["b"]
    (more,) = publish(http, topic, {"value": "d", "partition": 2})
    assert more["offset"] == 2


@pytest.mark.parametrize(
    ("sent", "content"),
    [
        ('"text"', b"text"),
        ('"\\u00e9\\n\\ud83d\\ude00"', "é\n😀".encode()),
        ('"é😀"', "é😀".encode()),
        ('""', b""),
        ("null", None),
        ("0", b"0"),
        ("-1.50e3", b"-1.50e3"),
        ("123456789012345678901234567890", b"123456789012345678901234567890"),
        ("true", b"true"),
        ('{"b": 1,  "a": [null, "é"]}', '{"b": 1,  "a": [null, "é"]}'.encode()),
        ("[]", b"[]"),
    ],
)
def test_a_value_is_its_text_or_its_json(http: httpx.Client, topic: str, sent: str, content: bytes | None) -> None:
    body = f'{{"messages": [{{"key": {sent}, "value": {sent}}}]}}'
    reply = http.post(
        f"/topics/{topic}/messages", content=body.encode(), headers={"content-type": "application/json; charset=UTF-8"}
    )
    assert reply.status_code == 200, reply.text
    assert stored(http, topic) == [(content, content)]


def test_bytes_travel_as_base64(http: httpx.Client, topic: str) -> None:
    every_byte = base64.b64encode(bytes(range(256))).decode()
    publish(http, topic, {"key_base64": every_byte, "value_base64": every_byte}, {"key_base64": "", "value_base64": ""})
    first, second = read(http, topic)["messages"]
    assert (first["key_base64"], first["value_base64"]) == (every_byte, every_byte)
    assert "key" not in first
    assert "value" not in first
    assert (second["key"], second["value"]) == ("", "")


def test_a_message_without_key_and_value_is_a_tombstone_without_key(http: httpx.Client, topic: str) -> None:
    publish(http, topic, {})
    (message,) = read(http, topic)["messages"]
    assert (message["key"], message["value"], message["headers"]) == (None, None, {})


def test_headers_of_every_kind_come_back_exactly(http: httpx.Client, topic: str) -> None:
    binary = base64.b64encode(b"\xff\x00").decode()
    publish(
        http,
        topic,
        {"headers": {"a": "1", "é": "ü", "empty": ""}},
        {"headers": {"a": None}},
        {
            "headers": [
                {"name": "a", "value": "1"},
                {"name": "a", "value_base64": binary},
                {"name": "none"},
                {"name": "null", "value": None},
                {"name": "nil", "value_base64": None},
                {"name": "b", "value": "last"},
            ]
        },
        {"headers": []},
    )
    plain, with_null, unusual, none = read(http, topic)["messages"]
    assert plain["headers"] == {"a": "1", "é": "ü", "empty": ""}
    assert "headers_base64" not in plain
    assert with_null["headers"] == {"a": None}
    assert with_null["headers_base64"] == [["a", None]]
    assert unusual["headers"] == {"a": None, "none": None, "null": None, "nil": None, "b": "last"}
    assert unusual["headers_base64"] == [
        ["a", base64.b64encode(b"1").decode()],
        ["a", binary],
        ["none", None],
        ["null", None],
        ["nil", None],
        ["b", base64.b64encode(b"last").decode()],
    ]
    assert none["headers"] == {}


def test_a_timestamp_is_kept_in_either_form(http: httpx.Client, topic: str, broker: Broker) -> None:
    before = broker.clock.now_ms()
    results = publish(
        http,
        topic,
        {"timestamp": 1_700_000_000_123},
        {"timestamp": "2023-11-14T22:13:20.123Z"},
        {"timestamp": "2023-11-14T23:13:20.123+01:00"},
        {"timestamp": 0},
        {},
    )
    stamps = [message["timestamp"] for message in read(http, topic)["messages"]]
    assert stamps == [result["timestamp"] for result in results]
    assert stamps[:4] == [1_700_000_000_123, 1_700_000_000_123, 1_700_000_000_123, 0]
    assert before <= stamps[4] <= broker.clock.now_ms()


def test_a_topic_that_stamps_itself_tells_its_own_time(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    (result,) = publish(http, topic, {"timestamp": 5})
    (message,) = read(http, topic)["messages"]
    assert result["timestamp"] == message["timestamp"] > 5


@pytest.mark.parametrize("timestamp", ["yesterday", "2023-11-14T22:13:20", "", -1, 253_402_300_800_000, "9" * 30])
def test_a_timestamp_that_is_none_fails_its_message_only(http: httpx.Client, topic: str, timestamp: int | str) -> None:
    refused_one, stored_one = publish(http, topic, {"timestamp": timestamp}, {"value": "good"}, status=207)
    assert refused_one["error"]["code"] == "invalid_record"
    assert stored_one["offset"] == 0


def test_a_key_decides_on_the_partition_as_in_kafkas_clients(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(5)
    keys = [f"key-{number}" for number in range(50)]
    results = publish(http, topic, *({"key": key, "value": key} for key in keys))
    assert [result["partition"] for result in results] == [murmur2_partition(key.encode(), 5) for key in keys]


def test_messages_without_a_key_stay_together_and_requests_take_turns(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    one, other = new_topic(3), new_topic(2)
    turns: dict[str, list[set[int]]] = {one: [], other: []}
    for _ in range(6):
        for topic in (one, other):
            results = publish(http, topic, {"value": "a"}, {"value": "b"})
            turns[topic].append({result["partition"] for result in results})
    assert turns == {one: [{0}, {1}, {2}, {0}, {1}, {2}], other: [{0}, {1}, {0}, {1}, {0}, {1}]}


@pytest.mark.parametrize("acks", ["all", "leader", "none"])
def test_every_kind_of_acks_tells_the_offset(http: httpx.Client, topic: str, acks: str) -> None:
    (result,) = publish(http, topic, {"value": "x"}, acks=acks)
    assert result["offset"] == 0
    assert values(read(http, topic, wait="10s")) == ["x"]


def test_a_topic_that_wants_more_replicas_takes_nothing_that_must_be_safe(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(min_insync_replicas=2)
    (result,) = publish(http, topic, {"value": "x"}, status=503)
    assert result["error"]["code"] == "not_enough_replicas"
    publish(http, topic, {"value": "x"}, acks="leader")


def test_some_failures_are_207_and_nothing_but_failures_have_the_status_of_the_first(
    http: httpx.Client, topic: str
) -> None:
    nowhere, delayed, good = {"value": "x", "partition": 7}, {"value": "x", "delay": "5s"}, {"value": "x"}
    results = publish(http, topic, nowhere, good, delayed, good, status=207)
    assert results[0]["error"] == {
        "code": "unknown_partition",
        "message": f"topic '{topic}' has no partition 7",
        "status": 404,
        "hint": "it has 0 to 0",
    }
    assert [result.get("offset") for result in results] == [None, 0, None, 1]
    publish(http, topic, nowhere, delayed, status=404)
    publish(http, topic, delayed, nowhere, status=400)
    assert len(read(http, topic)["messages"]) == 2


@pytest.mark.parametrize("name", ["priority", "delay", "deliver_at", "dedup_id"])
def test_unsupported_fields_are_refused_not_ignored(http: httpx.Client, topic: str, name: str) -> None:
    values_of_any_kind: list[Any] = ["1", 1, None, {}]
    for value in values_of_any_kind:
        (result,) = publish(http, topic, {"value": "x", name: value}, status=400)
        assert result["error"]["code"] == "not_offered"
        assert name in result["error"]["message"]
    assert read(http, topic)["messages"] == []


@pytest.mark.parametrize(
    "message",
    [
        {"key": "a", "key_base64": "YQ=="},
        {"value": None, "value_base64": "YQ=="},
        {"headers": [{"name": "a", "value": "x", "value_base64": "YQ=="}]},
    ],
)
def test_a_field_cannot_be_given_twice(http: httpx.Client, topic: str, message: Any) -> None:
    (result,) = publish(http, topic, message, status=400)
    assert result["error"]["code"] == "invalid_record"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "messages"),
        ({"messages": []}, "$.messages"),
        ({"messages": {}}, "$.messages"),
        ({"messages": [{}], "acks": "most"}, "$.acks"),
        ({"messages": [{}], "ack": "all"}, "ack"),
        ({"messages": [{}, {"valu": 1}]}, "$.messages[1]"),
        ({"messages": [{"value_base64": "!"}]}, "$.messages[0].value_base64"),
        ({"messages": [{"partition": -1}]}, "$.messages[0].partition"),
        ({"messages": [{"partition": 2**31}]}, "$.messages[0].partition"),
        ({"messages": [{"headers": {"a": 1}}]}, "$.messages[0].headers[...]"),
        ({"messages": [{"headers": [{"value": "x"}]}]}, "$.messages[0].headers[0]"),
        ({"messages": [{"timestamp": 1.5}]}, "$.messages[0].timestamp"),
        ({"messages": [{}] * 10_001}, "$.messages"),
    ],
)
def test_a_body_of_another_shape_is_refused_as_a_whole(http: httpx.Client, topic: str, body: Any, place: str) -> None:
    problem = refused(http.post(f"/topics/{topic}/messages", json=body), 400, "malformed_request")
    assert place in problem["detail"]
    assert read(http, topic)["messages"] == []


def test_a_text_that_is_not_utf8_fails_its_message(http: httpx.Client, topic: str) -> None:
    body = b'{"messages": [{"value": "\xff"}, {"value": {"a": "\xff"}}, {"key": "\xc3"}, {"value": "good"}]}'
    reply = http.post(f"/topics/{topic}/messages", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 207
    *failed, good = reply.json()["results"]
    assert [result["error"]["code"] for result in failed] == ["invalid_record"] * 3
    assert good["offset"] == 0


# -- limits


def test_a_key_has_64_kib_at_most(http: httpx.Client, topic: str) -> None:
    fits, exceeds = "k" * 65_536, "k" * 65_537
    first, second = publish(http, topic, {"key": fits}, {"key": exceeds}, status=207)
    assert first["offset"] == 0
    assert second["error"]["code"] == "too_large"
    assert second["error"]["status"] == 413


def test_headers_have_64_kib_at_most_together(http: httpx.Client, topic: str) -> None:
    fits = {"a": "x" * 30_000, "b": "x" * 35_534}
    first, second = publish(http, topic, {"headers": fits}, {"headers": fits | {"b": "x" * 35_535}}, status=207)
    assert first["offset"] == 0
    assert second["error"]["code"] == "too_large"


def test_a_message_may_be_as_large_as_the_topic_says_and_fails_alone_beyond(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes=1000)
    # Of a batch with one record without key, the header takes 61 bytes and the numbers of the record 9.
    results = publish(http, topic, {"value": "x" * 930}, {"value": "x" * 931}, {"value": "small"}, status=207)
    assert [result.get("offset") for result in results] == [0, None, 1]
    assert "max.message.bytes" in results[1]["error"]["hint"]


def test_small_messages_of_one_request_may_be_more_than_one_batch_holds(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes=2000)
    sent = [f"{number}-" + "x" * (number * 37 % 900) for number in range(200)]
    results = publish(http, topic, *({"value": value} for value in sent))
    assert [result["offset"] for result in results] == list(range(200))
    assert values(read(http, topic, limit=1000)) == sent


def test_ten_thousand_messages_go_in_one_request(http: httpx.Client, topic: str) -> None:
    results = publish(http, topic, *({"value": f"{number}"} for number in range(10_000)))
    assert [result["offset"] for result in results] == list(range(10_000))
    assert values(read(http, topic, limit=10_000)) == [f"{number}" for number in range(10_000)]


def test_many_long_keys_do_not_hold_up_others(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    keys = [f"{number:04}" * 8000 for number in range(30)]
    results = publish(http, topic, *({"key": key} for key in keys))
    assert [result["partition"] for result in results] == [murmur2_partition(key.encode(), 4) for key in keys]


def test_turns_of_deleted_topics_are_forgotten() -> None:
    async def main(simulation: Simulation) -> None:
        broker = CoreBroker(
            SimDisk(seed=1),
            PurePath("data"),
            BrokerOptions(),
            clock=simulation.clock,
            entropy=simulation.entropy,
            sink=RecordingSink(),
        )
        turns = PartitionTurns()
        await broker.start()
        await create_topic(broker.topics, INSIDE, "stays", partitions=2)
        assert turns.next_partition(broker.messages, broker.topics.topic("stays")) == 0
        for number in range(50):
            await create_topic(broker.topics, INSIDE, f"t-{number}")
            turns.next_partition(broker.messages, broker.topics.topic(f"t-{number}"))
            await delete_topic(broker.topics, INSIDE, f"t-{number}")
        assert len(turns) < 6
        assert turns.next_partition(broker.messages, broker.topics.topic("stays")) == 1
        await broker.stop()

    simulate(main, 0)


# -- topics that are not there


def test_a_topic_is_made_on_demand(http: httpx.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    body = {"messages": [{"value": "first"}]}
    first, second = (http.post(f"/topics/{name}/messages", json=body).json() for _ in range(2))
    assert first["topic_created"] is True
    assert "topic_created" not in second
    assert http.get(f"/topics/{name}").json()["partitions"] == 3


def test_a_topic_is_not_made_where_that_is_switched_off() -> None:
    with Broker(auto_create_topics=False) as broker, httpx.Client(base_url=broker.http) as http:
        refused(http.post("/topics/t/messages", json={"messages": [{}]}), 404, "unknown_topic")
        assert http.get("/topics").json() == {"topics": []}


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("a b", 400, "invalid_topic_name"), ("x" * 250, 400, "invalid_topic_name"), ("__state", 404, "unknown_topic")],
)
def test_no_topic_is_made_under_a_name_that_cannot_be(http: httpx.Client, name: str, status: int, code: str) -> None:
    refused(http.post(f"/topics/{name}/messages", json={"messages": [{}]}), status, code)
