"""Members of groups that speak HTTP, eager and cooperative, for tests that read as transcripts."""

from __future__ import annotations

from typing import Any

import httpx

from tests.protocols.http.expect import publish


def done(reply: httpx.Response, status: int = 200) -> Any:
    """Check that a call succeeded, and return what it told."""
    assert reply.status_code == status, reply.text
    return reply.json() if reply.content else None


def describe(http: httpx.Client, group: str) -> Any:
    """Return all that is known of a group."""
    return done(http.get(f"/groups/{group}"))


def fill(http: httpx.Client, topic: str, *counts: int) -> None:
    """Publish that many messages to each partition; values tell partition and number."""
    messages = [
        {"value": f"{partition}/{number}", "partition": partition}
        for partition, count in enumerate(counts)
        for number in range(count)
    ]
    publish(http, topic, *messages)


def names(partitions: Any) -> set[str]:
    """Return partitions by name."""
    return {f"{each['topic']}-{each['partition']}" for each in partitions}


def indexes(partitions: Any) -> set[int]:
    """Return the numbers of partitions."""
    return {each["partition"] for each in partitions}


class Member:
    """An eager member, with its state of the last reply."""

    def __init__(self, http: httpx.Client, group: str, *topics: str, client_id: str = "test", **options: Any) -> None:
        self.http = http
        self.group = group
        self.topics = topics
        self.options = {"client_id": client_id, **options}
        self.id = ""
        self.generation = 0
        self.assigned: set[int] = set()

    def join(self) -> Any:
        """Join, or join again."""
        body: dict[str, Any] = {"topics": list(self.topics), **self.options}
        if self.id:
            body["member_id"] = self.id
        return self._told(done(self.http.post(f"/groups/{self.group}/join", json=body)))

    def heartbeat(self) -> Any:
        """Send a heartbeat; join again if that is what it says."""
        told = done(self.beat())
        return self.join() if told["state"] == "rebalancing" else self._told(told)

    def beat(self) -> httpx.Response:
        """Send a heartbeat, whatever comes of it."""
        return self.http.post(f"/groups/{self.group}/heartbeat", json=self.identity)

    def leave(self) -> None:
        """Leave."""
        done(self.http.post(f"/groups/{self.group}/leave", json={"member_id": self.id}), 204)
        self.assigned = set()

    def poll(self, **query: Any) -> Any:
        """Poll, which succeeds."""
        return done(self.try_poll(**query))

    def try_poll(self, **query: Any) -> httpx.Response:
        """Poll, whatever comes of it."""
        return self.http.get(f"/groups/{self.group}/poll", params={**self.identity, **query})

    def values(self, **query: Any) -> list[str]:
        """Poll, and return the values of the messages."""
        return [message["value"] for message in self.poll(**query)["messages"]]

    def commit(self, topic: str, *offsets: tuple[int, int]) -> httpx.Response:
        """Commit offsets of partitions as a member, whatever comes of it."""
        body = {
            **self.identity,
            "offsets": [{"topic": topic, "partition": index, "offset": offset} for index, offset in offsets],
        }
        return self.http.post(f"/groups/{self.group}/offsets", json=body)

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of the member in requests."""
        return {"member_id": self.id, "generation": self.generation}

    def _told(self, told: Any) -> Any:
        self.id = told["member_id"]
        self.generation = told["generation"]
        self.assigned = indexes(told["assignment"])
        return told


class Cooperative:
    """A cooperative member, as it knows itself."""

    def __init__(self, http: httpx.Client, group: str, *topics: str, client_id: str = "test") -> None:
        self.http = http
        self.group = group
        self.topics = topics
        self.client_id = client_id
        self.id = ""
        self.generation = 0
        self.assigned: set[int] = set()
        self.revoke: set[int] = set()
        self.state = ""

    def join(self) -> Any:
        """Join, or join again."""
        body: dict[str, Any] = {"topics": list(self.topics), "client_id": self.client_id}
        if self.id:
            body["member_id"] = self.id
        return self._told(done(self.http.post(f"/groups/{self.group}/join/cooperative", json=body)))

    def heartbeat(self, owned: set[int] | None = None) -> Any:
        """Send a heartbeat; `owned` are partitions of the first topic."""
        body = self.identity
        if owned is not None:
            body["owned"] = self.named(owned)
        return self._told(done(self.http.post(f"/groups/{self.group}/heartbeat/cooperative", json=body)))

    def give_back(self, *partitions: int) -> Any:
        """Give partitions of the first topic back."""
        return self._told(done(self.try_give_back(*partitions)))

    def try_give_back(self, *partitions: int) -> httpx.Response:
        """Give partitions of the first topic back, whatever comes of it."""
        body = {**self.identity, "partitions": self.named(partitions)}
        return self.http.post(f"/groups/{self.group}/revoke", json=body)

    def leave(self) -> None:
        """Leave."""
        done(self.http.post(f"/groups/{self.group}/leave/cooperative", json={"member_id": self.id}), 204)
        self.assigned = set()

    def values(self, **query: Any) -> list[str]:
        """Poll, and return the values of the messages."""
        reply = done(self.http.get(f"/groups/{self.group}/poll", params={**self.identity, **query}))
        return [message["value"] for message in reply["messages"]]

    def named(self, partitions: Any) -> list[dict[str, Any]]:
        """Return partitions of the first topic as JSON has them."""
        return [{"topic": self.topics[0], "partition": index} for index in partitions]

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of the member in requests."""
        return {"member_id": self.id, "generation": self.generation}

    def _told(self, told: Any) -> Any:
        self.id = told["member_id"]
        self.generation = told["generation"]
        self.state = told["state"]
        self.assigned = indexes(told["assigned"])
        self.revoke = indexes(told["revoke"])
        return told


def settle(*members: Member | Cooperative) -> None:
    """Let members send heartbeats until their group is stable."""
    for _ in range(20):
        for member in members:
            member.heartbeat()
            if isinstance(member, Cooperative) and member.revoke:
                member.give_back(*member.revoke)
        if describe(members[0].http, members[0].group)["state"] == "stable":
            return
    raise AssertionError("the group does not become stable")
