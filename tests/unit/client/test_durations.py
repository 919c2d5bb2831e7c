"""Durations of the Python client: a bare number is seconds in every call, and what makes no sense is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from goqueue.client import Client, Retry, groups, messages, queues, transactions
from goqueue.client.calls import Call
from goqueue.client.durations import seconds_of
from goqueue.client.group_values import Membership
from goqueue.errors import Invalid

THIRTY: list[Any] = [30, 30.0, "30s", "30000ms", timedelta(seconds=30)]
MEMBER = Membership(member_id="m", generation=1, state="stable", assignment=(), heartbeat_interval_ms=3000)


def body(call: Call[Any]) -> dict[str, Any]:
    assert call.body is not None
    found: dict[str, Any] = json.loads(call.body)
    return found


SENT: dict[str, Callable[[Any], object]] = {
    "alter visibility_timeout": lambda given: body(queues.alter("g", visibility_timeout=given))["visibility_timeout"],
    "alter backoff": lambda given: body(queues.alter("g", backoff=given))["backoff"],
    "alter backoff_max": lambda given: body(queues.alter("g", backoff_max=given))["backoff_max"],
    "receive visibility_s": lambda given: body(queues.receive("g", "t", visibility_s=given))["visibility_timeout"],
    "receive wait_s": lambda given: body(queues.receive("g", "t", wait_s=given))["wait"],
    "nack delay_s": lambda given: body(queues.nack("r", delay_s=given))["delay"],
    "extend timeout_s": lambda given: body(queues.extend("r", timeout_s=given))["timeout"],
    "read wait_s": lambda given: messages.read("t", 0, wait_s=given).query["wait"],
    "poll wait_s": lambda given: groups.poll("g", MEMBER, wait_s=given).query["wait"],
    "init timeout_s": lambda given: body(transactions.init("id", timeout_s=given))["timeout"],
}


@pytest.mark.parametrize("given", THIRTY, ids=repr)
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_every_call_takes_seconds_timedelta_and_text(sent: Callable[[Any], object], given: Any) -> None:
    assert sent(given) in {30_000, "30000ms"}


@pytest.mark.parametrize("given", [-1, "30", "soon", True, None, [30], float("nan"), timedelta(seconds=-1)], ids=repr)
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_every_call_refuses_what_is_no_duration_and_says_the_unit(sent: Callable[[Any], object], given: Any) -> None:
    if given is None:
        return
    with pytest.raises(Invalid, match="a number is in seconds"):
        sent(given)


@pytest.mark.parametrize("name", ["alter visibility_timeout", "receive visibility_s", "extend timeout_s"])
@pytest.mark.parametrize("given", [0.03, "30ms", timedelta(milliseconds=30), 43_201, "13h"], ids=repr)
def test_visibility_outside_its_range_is_refused_with_the_range(name: str, given: Any) -> None:
    with pytest.raises(Invalid, match="may be 100ms to 12h") as refused:
        SENT[name](given)
    assert "seconds" in str(refused.value)


@pytest.mark.parametrize("name", ["alter visibility_timeout", "receive visibility_s"])
def test_visibility_of_zero_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is 0 seconds, and may be 100ms to 12h"):
        SENT[name](0)


def test_extending_by_zero_gives_messages_back() -> None:
    assert body(queues.extend("r", timeout_s=0))["timeout"] == 0


@pytest.mark.parametrize("given", THIRTY, ids=repr)
def test_options_of_clients_consumers_and_workers_take_the_same(given: Any) -> None:
    with Client(timeout_s=given) as client:
        assert client._timeout_s == 30
        assert client.consumer("g", auto_commit_s=given)._script._auto_commit_s == 30
        worker = client.worker("g", "t", print, visibility_s=given, lease_max_s=given, wait_s=given, drain_s=given)
        limits = worker._script.limits
        assert (limits.visibility_s, limits.lease_max_s, limits.wait_s, limits.drain_s) == (30, 30, 30, 30)
    assert Retry("later", delay_s=given).delay_s == 30


def test_consumers_and_clients_refuse_what_is_no_duration() -> None:
    with pytest.raises(Invalid, match="timeout_s"):
        Client(timeout_s=0)
    with pytest.raises(Invalid, match="timeout_s is inf seconds, and may be 1ms to 1d"):
        Client(timeout_s=float("inf"))
    with Client() as client, pytest.raises(Invalid, match='write "5s"'):
        client.consumer("g", auto_commit_s="5")


def test_a_duration_may_be_infinite_where_there_is_no_limit() -> None:
    assert seconds_of(float("inf"), "drain_s") == float("inf")


def test_unknown_settings_and_options_suggest_near_names() -> None:
    with pytest.raises(TypeError, match="did you mean 'visibility_timeout'"):
        queues.alter("g", visibility=30)
    with pytest.raises(TypeError, match="did you mean 'retries'"):
        queues.alter("g", retry=3)
    with pytest.raises(TypeError, match="there are visibility_timeout"):
        queues.alter("g", xyz=3)
    with pytest.raises(TypeError, match="did you mean 'timeout_s'"):
        Client(timeout=3)  # type: ignore[call-arg]
    with Client() as client, pytest.raises(TypeError, match="did you mean 'visibility_s'"):
        client.worker("g", "t", print, visibility=3)  # type: ignore[call-arg]
