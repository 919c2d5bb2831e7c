"""A broker of ours, a data client, and topics of their own for every test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from goqueue.client import Client, topics
from goqueue.client.kafka import KafkaData
from goqueue.testing.broker import Broker

_numbers = count()


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    """One broker for each file."""
    return goqueue_session_broker


@pytest.fixture
def data(broker: Broker) -> Iterator[KafkaData]:
    """A client of that broker."""
    with KafkaData(broker.bootstrap) as client:
        yield client


@pytest.fixture
def new_topic(request: pytest.FixtureRequest, broker: Broker) -> Callable[..., str]:
    """Create a topic and return its name."""
    test = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:150]

    def create(partitions: int = 1, **config: str | int) -> str:
        name = f"{test}-{next(_numbers)}"
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        with Client(broker.http) as client:
            client.send(topics.create(name, partitions=partitions, config=settings))
        return name

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic with one partition."""
    return new_topic()
