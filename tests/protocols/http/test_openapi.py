"""The OpenAPI document: complete, well-formed, and true, as far as a machine that tries everything can tell."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from goqueue.protocols.http.routes import ROUTES
from goqueue.protocols.http.wire.endpoint import HttpRequestFailed
from goqueue.runtime.tasks import TaskFailed
from goqueue.testing import Broker
from tests.protocols.http.schemathesis_hooks import KNOWN_GROUP, KNOWN_MEMBER, KNOWN_TOPIC, STALE_RECEIPT_VARIABLE

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 1_200


@pytest.fixture(scope="module")
def document(http: httpx.Client) -> Any:
    """The document as it is served."""
    reply = http.get("/openapi.json")
    assert reply.headers["content-type"] == "application/json"
    return reply.json()


def test_every_operation_is_described_once(document: Any) -> None:
    described = {
        (method.upper(), path, operation["operationId"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert described == {(route.method, route.path, route.name) for route in ROUTES}
    assert document["openapi"] == "3.1.0"
    assert {server["url"] for server in document["servers"]} == {"/", "/v1"}


def test_every_schema_is_one_and_is_used(document: Any) -> None:
    text = str(document)
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})
        assert f"'#/components/schemas/{name}'" in text, name


def test_schema_of_messages_is_exact(document: Any) -> None:
    components = document["components"]
    validator = jsonschema_rs.Draft202012Validator(
        {"$ref": "#/components/schemas/MessagesToPublish", "components": components}
    )
    good: list[Any] = [
        {},
        {"value": "x"},
        {"value": {"any": [1, None]}, "key": 5},
        {"value_base64": "AP8=", "headers": [{"name": "a"}], "timestamp": 5},
        {"headers": {"a": None}, "partition": 0, "timestamp": None},
    ]
    bad: list[Any] = [
        {"value": "x", "value_base64": "eA=="},
        {"delay": "5s"},
        {"priority": None},
        {"valu": "x"},
        {"partition": -1},
        {"headers": [{"value": "x"}]},
        {"timestamp": -1},
    ]
    for message in good:
        assert validator.is_valid({"messages": [message]}), message
    for message in bad:
        assert not validator.is_valid({"messages": [message]}), message
    assert not validator.is_valid({"messages": []})


def test_the_bounds_of_durations_are_those_that_are_kept(document: Any) -> None:
    def maximum(shape: str, field: str) -> int:
        kinds = document["components"]["schemas"][shape]["properties"][field]["anyOf"]
        return next(int(kind["maximum"]) for kind in kinds if kind["type"] == "integer")

    day_ms = 24 * 3_600_000
    assert maximum("ReceiveRequest", "visibility_timeout") == day_ms // 2
    assert maximum("QueueSettingsToChange", "visibility_timeout") == day_ms // 2
    assert maximum("Extension", "timeout") == day_ms // 2
    assert maximum("ReceiveRequest", "wait") == 60_000
    assert maximum("Nack", "delay") == maximum("QueueSettingsToChange", "backoff") == 7 * day_ms


@pytest.mark.parametrize(
    ("prefix", "examples", "phases"),
    [("", 6, "examples,coverage,fuzzing,stateful"), ("/v1", 2, "fuzzing")],
    ids=["all phases", "under /v1"],
)
def test_a_machine_that_tries_everything_finds_no_lie(prefix: str, examples: int, phases: str, tmp_path: Path) -> None:
    """Every check is on. `schemathesis_hooks` says what the document cannot.

    Both prefixes lead to the same handlers, so under the second one each operation is called a few times only.
    """
    with Broker() as broker:
        httpx.post(f"{broker.http}/topics", json={"name": KNOWN_TOPIC, "partitions": 1}).raise_for_status()
        member = {"topics": [KNOWN_TOPIC], "member_id": KNOWN_MEMBER}
        httpx.post(f"{broker.http}/groups/{KNOWN_GROUP}/join", json=member).raise_for_status()
        receipt = _stale_receipt(broker)
        run = subprocess.run(
            [
                Path(sysconfig.get_path("scripts")) / "st",
                "run",
                f"{broker.http}/openapi.json",
                *("--url", f"{broker.http}{prefix}"),
                *(
                    "--phases",
                    phases,
                    "--checks",
                    "all",
                    "--max-examples",
                    str(examples),
                    "--seed",
                    "1",
                    "--continue-on-failure",
                ),
                *("--request-timeout", "20", "--output-truncate", "false", "--no-color"),
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": "tests.protocols.http.schemathesis_hooks",
                "PYTHONPATH": str(ROOT),
                STALE_RECEIPT_VARIABLE: receipt,
            },
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
        assert broker.sink.of(HttpRequestFailed) == []
        assert broker.sink.of(TaskFailed) == []


def _stale_receipt(broker: Broker) -> str:
    """Return the receipt of a message that was acknowledged."""
    httpx.post(f"{broker.http}/topics/settled/messages", json={"messages": [{"value": "x"}]}).raise_for_status()
    got = httpx.post(f"{broker.http}/groups/settlers/receive", json={"topic": "settled", "wait": "10s"}).json()
    receipt: str = got["messages"][0]["receipt_handle"]
    httpx.post(f"{broker.http}/messages/ack", json={"receipt_handle": receipt}).raise_for_status()
    return receipt
