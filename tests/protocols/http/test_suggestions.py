"""Names that do not exist are refused with one that is similar."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from goqueue.testing import Broker
from tests.protocols.http.expect import refused


@pytest.fixture(scope="module")
def http() -> Any:
    """A client of a broker that has a topic, a stream group and a queue group."""
    with Broker(auto_create_topics=False) as broker, httpx.Client(base_url=broker.http, timeout=30) as client:
        client.post("/topics", json={"name": "retries", "partitions": 1}).raise_for_status()
        member = {"topics": ["retries"], "member_id": "m"}
        client.post("/groups/billing/join", json=member).raise_for_status()
        client.patch("/queues/workers", json={"retries": 3}).raise_for_status()
        yield client


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/topics/retrys", None),
        ("DELETE", "/topics/Retries", None),
        ("GET", "/topics/retries2/partitions", None),
        ("GET", "/topics/retires/partitions/0/messages", None),
        ("PATCH", "/topics/retrie", {"config": {}}),
        ("POST", "/topics/retrys/messages", {"messages": [{"value": "x"}]}),
        ("POST", "/groups/g/receive", {"topic": "retrys"}),
    ],
)
def test_unknown_topic_suggests_a_near_name(http: httpx.Client, method: str, path: str, body: object) -> None:
    problem = refused(http.request(method, path, json=body), 404, "unknown_topic")
    assert "did you mean 'retries'?" in problem["hint"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/groups/biling"), ("DELETE", "/groups/billings")])
def test_unknown_group_suggests_a_near_name(http: httpx.Client, method: str, path: str) -> None:
    problem = refused(http.request(method, path), 404, "unknown_group")
    assert problem["hint"] == "did you mean 'billing'?"


def test_unknown_queue_suggests_a_near_name_and_keeps_its_hint(http: httpx.Client) -> None:
    problem = refused(http.get("/queues/worker"), 404, "unknown_queue")
    assert problem["hint"] == "did you mean 'workers'? The first receive creates it"


def test_internal_topics_are_never_suggested(http: httpx.Client) -> None:
    assert {topic["name"] for topic in http.get("/topics?internal=true").json()["topics"]} > {"__deliveries"}
    assert "hint" not in refused(http.get("/topics/deliveries"), 404, "unknown_topic")
    assert "hint" not in refused(http.get("/topics/__deliverie"), 404, "unknown_topic")


@pytest.mark.parametrize(
    ("method", "path", "body", "near"),
    [
        ("PATCH", "/queues/workers", {"retrys": 5}, "retries"),
        ("PATCH", "/queues/workers", {"visibility_timeouts": "5s"}, "visibility_timeout"),
        ("POST", "/topics/retries/messages", {"message": []}, "messages"),
        ("POST", "/topics/retries/messages", {"messages": [{}, {"valu": 1}]}, "value"),
        ("POST", "/topics/retries/messages", {"messages": [{"headers": [{"nam": "x"}]}]}, "name"),
    ],
)
def test_unknown_field_suggests_a_near_name(
    http: httpx.Client, method: str, path: str, body: object, near: str
) -> None:
    problem = refused(http.request(method, path, json=body), 400, "malformed_request")
    assert problem["hint"] == f"did you mean '{near}'?"


def test_unknown_parameter_suggests_a_near_name(http: httpx.Client) -> None:
    problem = refused(http.get("/topics/retries/partitions/0/messages?limits=5"), 400, "malformed_request")
    assert problem["hint"] == "did you mean 'limit'?"


def test_unknown_setting_of_a_topic_suggests_a_near_name(http: httpx.Client) -> None:
    body = {"name": "t", "config": {"retenton.ms": "5"}}
    problem = refused(http.post("/topics", json=body), 400, "invalid_topic_settings")
    assert problem["detail"] == "'retenton.ms' is no setting of a topic; did you mean retention.ms?"


def test_thousands_of_unknown_settings_get_few_suggestions(http: httpx.Client) -> None:
    config = {f"retention.ms{number}": "5" for number in range(5000)}
    problem = refused(http.post("/topics", json={"name": "t", "config": config}), 400, "invalid_topic_settings")
    assert problem["detail"].count("did you mean") == 10
