"""A consumer of a queue group by HTTP, in as few words as possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import httpx

from tests.protocols.http.expect import publish

Got = dict[str, Any]


class Consumer:
    """Receives messages of one topic for a group, and says what became of them."""

    def __init__(self, http: httpx.Client, group: str, topic: str, name: str = "ann") -> None:
        self.http = http
        self.group = group
        self.topic = topic
        self.name = name

    def receive(self, most: int = 100, **wishes: Any) -> list[Got]:
        """Return the messages that come."""
        body = {"topic": self.topic, "max": most, "consumer": self.name, **wishes}
        reply = self.http.post(f"/groups/{self.group}/receive", json=body)
        assert reply.status_code == 200, reply.text
        return list(reply.json()["messages"])

    def shortfall(self) -> str:
        """Return why nothing comes."""
        reply = self.http.post(f"/groups/{self.group}/receive", json={"topic": self.topic, "consumer": self.name})
        assert reply.json()["messages"] == []
        return str(reply.json()["shortfall"])

    def settle(self, verb: str, messages: Iterable[Got], *, status: int = 200, **said: Any) -> list[Got]:
        """Say something about messages; return the results."""
        receipts = [each["receipt_handle"] for each in messages]
        reply = self.http.post(f"/messages/{verb}", json={"receipt_handles": receipts, **said})
        assert reply.status_code == status, reply.text
        return list(reply.json()["results"])

    def ack(self, messages: Iterable[Got]) -> None:
        """Acknowledge messages."""
        results = self.settle("ack", messages)
        assert {each["status"] for each in results} == {"done"}


def alter(http: httpx.Client, group: str, **settings: object) -> dict[str, Any]:
    """Change the settings of a group; return how it is then."""
    reply = http.patch(f"/queues/{group}", json=settings)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def fill(http: httpx.Client, topic: str, values: Iterable[object], **more: Any) -> None:
    """Publish values."""
    publish(http, topic, *({"value": str(value), **more} for value in values))


def values(messages: Sequence[Got]) -> list[str]:
    """Return what messages say, in the order in which they came."""
    return [str(each["value"]) for each in messages]
