"""A broker, an independent HTTP client, and separate topics for every test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count

import httpx
import pytest

from goqueue.testing import Broker

_numbers = count()


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    """One broker for each file."""
    return goqueue_session_broker


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    """A client of that broker."""
    with httpx.Client(base_url=broker.http, timeout=30) as client:
        yield client


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Make names of topics that no other test uses."""
    test = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:150]
    return lambda: f"{test}-{next(_numbers)}"


@pytest.fixture
def new_topic(new_name: Callable[[], str], http: httpx.Client) -> Callable[..., str]:
    """Create a topic and return its name."""

    def create(partitions: int = 1, **config: str | int) -> str:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        body = {"name": new_name(), "partitions": partitions, "config": settings}
        http.post("/topics", json=body).raise_for_status()
        return str(body["name"])

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic with one partition, which keeps messages of any age."""
    return new_topic(retention_ms=-1)
