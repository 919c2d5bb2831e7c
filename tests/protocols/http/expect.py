"""Shared assertions of the tests of the HTTP interface."""

from __future__ import annotations

from typing import Any

import httpx

PROBLEM = "application/problem+json"


def refused(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that a reply is the problem document of an error, and return it."""
    assert reply.headers["content-type"] == PROBLEM, reply.text
    problem: dict[str, Any] = reply.json()
    assert (reply.status_code, problem["code"]) == (status, code), reply.text
    assert problem["status"] == status
    assert problem["type"] == f"/docs#{code}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == reply.request.url.path
    return problem


def publish(http: httpx.Client, topic: str, *messages: dict[str, Any], status: int = 200, acks: str = "all") -> Any:
    """Publish messages and return their results."""
    reply = http.post(f"/topics/{topic}/messages", json={"messages": messages, "acks": acks})
    assert reply.status_code == status, reply.text
    results = reply.json()["results"]
    assert len(results) == len(messages)
    return results


def read(http: httpx.Client, topic: str, partition: int = 0, **query: Any) -> Any:
    """Read a partition and return the whole reply."""
    reply = http.get(f"/topics/{topic}/partitions/{partition}/messages", params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()


def values(reply: Any) -> list[str]:
    """Return the values of what was read."""
    return [message["value"] for message in reply["messages"]]
