"""Queues with the Python client: what became of messages, as results and as errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from goqueue.client import Client, NewMessage, SettledMessage, messages, queues
from goqueue.errors import InvalidReceipt, StaleReceipt
from goqueue.testing.broker import Broker


@pytest.fixture
def client(goqueue_session_broker: Broker) -> Iterator[Client]:
    with Client(goqueue_session_broker.http) as connected:
        yield connected


def test_a_lost_lease_is_raised_for_those_who_require_that_messages_are_settled(client: Client) -> None:
    client.send(messages.publish("required", [NewMessage("a", partition=0), NewMessage("b", partition=0)]))
    first, second = client.send(queues.receive("required", "required")).messages
    assert queues.require_settled(client.send(queues.ack(first))) == [SettledMessage("done", None)]
    results = client.send(queues.ack(first, first, second))
    assert [isinstance(each, StaleReceipt) for each in results] == [True, True, False]
    with pytest.raises(StaleReceipt, match=r"is not leased under this receipt any more \(and 1 more\)"):
        queues.require_settled(results)
    with pytest.raises(InvalidReceipt, match="this is no receipt"):
        queues.require_settled(client.send(queues.ack("nonsense")))
