"""What a transaction has read: after an abort or a commit in doubt, it is worked on once, and nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from goqueue.client import Client, GroupPage, Membership, NewMessage, Patience, groups, messages
from goqueue.errors import Unavailable
from goqueue.testing import Broker
from tests.unit.client.lossy_relay import lossy_relay


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with two orders."""
    with Broker() as running:
        with Client(running.http) as client:
            client.send(messages.publish("orders", [NewMessage(f"order {each}", partition=0) for each in (1, 2)]))
        yield running


def poll(client: Client, member: Membership, after: int) -> GroupPage:
    return client.send(groups.poll("billing", member, limit=1, after=after))


def bill(client: Client, member: Membership, page: GroupPage, *, fails: bool = False) -> None:
    """Write the invoices of a page, and that it was read."""
    with client.transaction("billing-1") as transaction:
        invoices = [NewMessage(b"invoice of " + (order.value or b""), partition=0) for order in page.messages]
        transaction.publish("invoices", invoices)
        transaction.send_offsets("billing", page.offsets, member=member)
        if fails:
            raise ZeroDivisionError


def invoices(client: Client) -> list[bytes | None]:
    return [message.value for message in client.send(messages.read("invoices", 0)).messages]


def test_a_page_whose_transaction_was_aborted_comes_again_if_it_is_asked_for(broker: Broker) -> None:
    with Client(broker.http) as client:
        member = client.send(groups.join("billing", ["orders"]))
        page = poll(client, member, 0)
        with pytest.raises(ZeroDivisionError):
            bill(client, member, page, fails=True)
        again = poll(client, member, 0)
        assert [each.value for each in again.messages] == [b"order 1"]
        bill(client, member, again)
        bill(client, member, poll(client, member, again.number))
        assert invoices(client) == [b"invoice of order 1", b"invoice of order 2"]


def test_after_a_commit_in_doubt_a_new_member_goes_on_in_the_right_place(broker: Broker) -> None:
    with lossy_relay(broker.http) as relay, Client(relay.address, patience=Patience(attempts=1)) as client:
        member = client.send(groups.join("billing", ["orders"]))
        page = poll(client, member, 0)
        relay.doomed.append("commit")
        with pytest.raises(Unavailable):
            bill(client, member, page)
        # Once the next block has begun, the commit has happened; this one is empty.
        with client.transaction("billing-1"):
            pass
        client.send(groups.leave("billing", member.member_id))
        member = client.send(groups.join("billing", ["orders"]))
        bill(client, member, poll(client, member, 0))
        assert invoices(client) == [b"invoice of order 1", b"invoice of order 2"]
