"""A broker for all tests of the command line, and a topic of its own for each of them."""

from __future__ import annotations

import pytest

from goqueue.testing.broker import Broker
from tests.cli.command import Command


@pytest.fixture
def goqueue(goqueue_session_broker: Broker) -> Command:
    return Command(goqueue_session_broker.http)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses; nothing is made."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:200]
