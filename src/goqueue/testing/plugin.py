"""Fixtures for pytest, there once GoQueue is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from goqueue.testing.broker import Broker


@pytest.fixture
def goqueue_broker() -> Iterator[Broker]:
    """A broker of its own for each test: `goqueue_broker.bootstrap` for Kafka clients, `.http` for HTTP."""
    from goqueue.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def goqueue_session_broker() -> Iterator[Broker]:
    """One broker for all tests of a session; each should use topics of its own."""
    from goqueue.testing.broker import Broker

    with Broker() as broker:
        yield broker
