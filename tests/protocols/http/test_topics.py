"""Topics by HTTP: make, list, describe, change, delete, and every way to get it wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx
import pytest

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, refused


def describe(http: httpx.Client, topic: str) -> Any:
    """Return a topic as it is described."""
    reply = http.get(f"/topics/{topic}")
    assert reply.status_code == 200, reply.text
    return reply.json()


def sources(described: Any) -> dict[str, tuple[str, str]]:
    """Return the value and source of each setting."""
    return {setting["name"]: (setting["value"], setting["source"]) for setting in described["settings"]}


def test_reply_to_create_has_location(http: httpx.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    reply = http.post("/topics", json={"name": name, "partitions": 2, "config": {"retention.ms": 60_000}})
    assert reply.status_code == 201
    assert reply.headers["location"] == f"/topics/{name}"
    made = reply.json()
    assert made == describe(http, name)
    assert made["name"] == name
    assert made["partitions"] == 2
    assert made["is_internal"] is False
    assert made["config"] == {"retention.ms": "60000"}
    assert UUID(made["id"]).version == 4
    assert datetime.fromisoformat(made["created_at"]).tzinfo is not None


def test_every_path_is_also_below_v1(http: httpx.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    reply = http.post("/v1/topics", json={"name": name})
    assert reply.headers["location"] == f"/v1/topics/{name}"
    assert http.get(f"/v1/topics/{name}").json() == describe(http, name)
    assert http.get("/v1/livez").status_code == 200
    refused(http.get("/v1/topics/none"), 404, "unknown_topic")


def test_a_topic_gets_the_brokers_defaults_unless_it_says_otherwise(
    http: httpx.Client, new_name: Callable[[], str]
) -> None:
    name = new_name()
    http.post("/topics", json={"name": name}).raise_for_status()
    described = describe(http, name)
    assert described["partitions"] == 3
    assert described["config"] == {}
    assert {source for _, source in sources(described).values()} == {"default"}


def test_each_setting_says_where_its_value_comes_from(new_name: Callable[[], str]) -> None:
    with Broker(default_retention_ms=5000) as broker, httpx.Client(base_url=broker.http) as http:
        http.post("/topics", json={"name": "t", "config": {"segment.bytes": "4096"}}).raise_for_status()
        found = sources(describe(http, "t"))
    assert found["segment.bytes"] == ("4096", "topic")
    assert found["retention.ms"] == ("5000", "broker")
    assert found["cleanup.policy"] == ("delete", "default")


def test_the_list_has_all_topics_by_name_without_the_settings_of_others(
    http: httpx.Client, new_name: Callable[[], str]
) -> None:
    names = [new_name() for _ in range(3)]
    for name in reversed(names):
        http.post("/topics", json={"name": name, "config": {"retention.ms": "1000"}}).raise_for_status()
    listed = http.get("/topics").json()["topics"]
    assert [topic["name"] for topic in listed] == sorted(topic["name"] for topic in listed)
    mine = [topic for topic in listed if topic["name"] in names]
    assert len(mine) == 3
    for topic in mine:
        assert topic["config"] == {"retention.ms": "1000"}
        assert "settings" not in topic


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "a b"}, 400, "invalid_topic_name"),
        ({"name": ".."}, 400, "invalid_topic_name"),
        ({"name": "x" * 250}, 400, "invalid_topic_name"),
        ({"name": ""}, 400, "invalid_topic_name"),
        ({"name": "__mine"}, 403, "topic_protected"),
        ({"name": "t", "partitions": 0}, 400, "invalid_partitions"),
        ({"name": "t", "partitions": -1}, 400, "invalid_partitions"),
        ({"name": "t", "partitions": 1_000_000}, 400, "invalid_partitions"),
        ({"name": "t", "replication": 3}, 400, "invalid_replication"),
        ({"name": "t", "config": {"retention.mss": "1"}}, 400, "invalid_topic_settings"),
        ({"name": "t", "config": {"retention.ms": "soon"}}, 400, "invalid_topic_settings"),
        ({"name": "t", "config": {"retention.ms": None}}, 400, "malformed_request"),
        ({"name": "t", "partitions": "3"}, 400, "malformed_request"),
        ({"name": "t", "partition": 3}, 400, "malformed_request"),
        ({"partitions": 3}, 400, "malformed_request"),
        ([], 400, "malformed_request"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(http: httpx.Client, body: Any, status: int, code: str) -> None:
    refused(http.post("/topics", json=body), status, code)
    refused(http.get("/topics/t"), 404, "unknown_topic")


def test_a_mistake_in_the_body_is_named_with_its_place(http: httpx.Client) -> None:
    problem = refused(http.post("/topics", json={"name": "t", "config": {"x": [1]}}), 400, "malformed_request")
    assert "$.config[...]" in problem["detail"]
    problem = refused(http.post("/topics", json={"name": "t", "partitons": 1}), 400, "malformed_request")
    assert "partitons" in problem["detail"]


def test_a_name_can_be_taken_once(http: httpx.Client, topic: str) -> None:
    refused(http.post("/topics", json={"name": topic}), 409, "topic_exists")


def test_a_change_touches_only_what_it_names(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2, retention_ms=1000, segment_bytes=4096)
    reply = http.patch(f"/topics/{topic}", json={"config": {"retention.ms": None, "cleanup.policy": "compact"}})
    assert reply.status_code == 200
    changed = reply.json()
    assert changed == describe(http, topic)
    assert changed["config"] == {"segment.bytes": "4096", "cleanup.policy": "compact"}
    assert changed["partitions"] == 2
    assert sources(changed)["retention.ms"][1] == "default"
    assert http.patch(f"/topics/{topic}", json={"partitions": 3}).json()["config"] == changed["config"]
    assert http.patch(f"/topics/{topic}", json={}).json() == describe(http, topic)
    assert describe(http, topic)["partitions"] == 3


def test_asking_for_the_partitions_that_there_are_is_no_mistake(http: httpx.Client, topic: str) -> None:
    assert http.patch(f"/topics/{topic}", json={"partitions": 1}).status_code == 200


def test_a_change_of_which_a_part_is_wrong_changes_nothing(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2, retention_ms=1000)
    before = describe(http, topic)
    for body, code in (
        ({"partitions": 3, "config": {"retention.ms": "soon"}}, "invalid_topic_settings"),
        ({"partitions": 1, "config": {"retention.ms": "5"}}, "invalid_partitions"),
        ({"config": {"retention.ms": "5", "no.such": "1"}}, "invalid_topic_settings"),
    ):
        refused(http.patch(f"/topics/{topic}", json=body), 400, code)
        assert describe(http, topic) == before


def test_a_setting_changes_what_the_broker_does(http: httpx.Client, topic: str) -> None:
    publish(http, topic, {"value": "x" * 1000})
    http.patch(f"/topics/{topic}", json={"config": {"max.message.bytes": 500}}).raise_for_status()
    publish(http, topic, {"value": "x" * 1000}, status=413)


def test_a_deleted_topic_is_gone_and_its_name_is_free(http: httpx.Client, topic: str) -> None:
    publish(http, topic, {"value": "old"})
    reply = http.delete(f"/topics/{topic}")
    assert (reply.status_code, reply.content) == (204, b"")
    assert "content-length" not in reply.headers
    for gone in (
        http.get(f"/topics/{topic}"),
        http.delete(f"/topics/{topic}"),
        http.patch(f"/topics/{topic}", json={"partitions": 2}),
        http.get(f"/topics/{topic}/partitions"),
        http.get(f"/topics/{topic}/partitions/0/messages"),
    ):
        refused(gone, 404, "unknown_topic")
    http.post("/topics", json={"name": topic, "partitions": 1}).raise_for_status()
    assert http.get(f"/topics/{topic}/partitions/0/messages").json()["messages"] == []


def test_partitions_tell_their_offsets_and_sizes(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    publish(http, topic, *({"value": f"{number}", "partition": 1} for number in range(5)))
    partitions = http.get(f"/topics/{topic}/partitions").json()["partitions"]
    assert [partition["partition"] for partition in partitions] == [0, 1]
    empty, filled = partitions
    assert empty == {
        "partition": 0,
        "leader": 1,
        "leader_epoch": 0,
        "start_offset": 0,
        "end_offset": 0,
        "last_stable_offset": 0,
        "log_end_offset": 0,
        "size_bytes": 0,
        "segments": 1,
    }
    assert {name: filled[name] for name in ("start_offset", "end_offset", "last_stable_offset", "log_end_offset")} == {
        "start_offset": 0,
        "end_offset": 5,
        "last_stable_offset": 5,
        "log_end_offset": 5,
    }
    assert filled["size_bytes"] > 61


def test_topics_outlive_a_restart() -> None:
    with Broker() as broker:
        httpx.post(f"{broker.http}/topics", json={"name": "t", "config": {"retention.ms": 1}}).raise_for_status()
        before = httpx.get(f"{broker.http}/topics/t").json()
        broker.restart()
        assert httpx.get(f"{broker.http}/topics/t").json() == before
