"""A consumer whose transaction did not commit goes back to the committed offsets by itself, in both clients."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client, Message, NewMessage, Patience, StartAt, groups, messages, transactions
from goqueue.errors import Conflict, GoQueueError, TransactionFenced, Unavailable
from goqueue.testing import Broker
from tests.unit.client.lossy_relay import LossyRelay, lossy_relay

COUNT = 100
GROUP = "billing"


class Trouble(Exception):
    """What a user's code raises in the middle of a block."""


Send = Callable[[Any, Any], Any]

SENDS: dict[str, Send] = {
    "consumer": lambda transaction, consumer: transaction.send_offsets(consumer),
    "membership": lambda transaction, consumer: transaction.send_offsets(
        GROUP, consumer.positions, member=consumer.member
    ),
    "member": lambda transaction, consumer: transaction.send_offsets(GROUP, consumer.positions, member=consumer),
}


def copies(polled: list[Message]) -> list[NewMessage]:
    return [NewMessage(message.value, partition=0) for message in polled]


class SyncLoop:
    """The loop of a user of the sync client, one round at a time."""

    def __init__(self, address: str) -> None:
        self.client = Client(address, patience=Patience(attempts=1))
        self.consumer: Any = None

    def join(self, **options: Any) -> None:
        self.consumer = self.client.consumer(GROUP, ["orders"], **options)

    def poll(self) -> list[Message]:
        return list(self.consumer.poll(limit=10, wait_s=0.2))

    def write(
        self, polled: list[Message], send: Send, *, before: Any = None, after: Any = None, client: Any = None
    ) -> None:
        with (client or self.client).transaction("billing-1") as transaction:
            transaction.publish("invoices", copies(polled))
            if before is not None:
                before(transaction)
            send(transaction, self.consumer)
            if after is not None:
                after(transaction)

    def abort(self, polled: list[Message], send: Send) -> None:
        with self.client.transaction("billing-1") as transaction:
            transaction.publish("invoices", copies(polled))
            send(transaction, self.consumer)
            transaction.abort()

    def other_client(self, address: str) -> Any:
        return Client(address)

    def close_client(self, client: Any) -> None:
        client.close()

    def close(self) -> None:
        with suppress(GoQueueError):
            self.consumer.close()
        self.client.close()


class AsyncLoop:
    """The same loop with the async client."""

    def __init__(self, address: str) -> None:
        self._runner = asyncio.Runner()
        self.client: Any = self.other_client(address)
        self.consumer: Any = None

    def _run(self, what: Any) -> Any:
        return self._runner.run(what)

    def join(self, **options: Any) -> None:
        async def make() -> Any:
            return self.client.consumer(GROUP, ["orders"], **options)

        self.consumer = self._run(make())

    def poll(self) -> list[Message]:
        return list(self._run(self.consumer.poll(limit=10, wait_s=0.2)))

    def write(
        self, polled: list[Message], send: Send, *, before: Any = None, after: Any = None, client: Any = None
    ) -> None:
        async def write() -> None:
            # The task is another one than that of the poll; so a block that fails before it sends has to name it.
            named = self.consumer if before is not None else None
            async with (client or self.client).transaction("billing-1", consumer=named) as transaction:
                await transaction.publish("invoices", copies(polled))
                if before is not None:
                    before(transaction)
                await send(transaction, self.consumer)
                if after is not None:
                    after(transaction)

        self._run(write())

    def abort(self, polled: list[Message], send: Send) -> None:
        async def abort() -> None:
            async with self.client.transaction("billing-1") as transaction:
                await transaction.publish("invoices", copies(polled))
                await send(transaction, self.consumer)
                await transaction.abort()

        self._run(abort())

    def other_client(self, address: str) -> Any:
        async def make() -> AsyncClient:
            return AsyncClient(address, patience=Patience(attempts=1))

        return self._run(make())

    def close_client(self, client: Any) -> None:
        self._run(client.close())

    def close(self) -> None:
        if self.client.is_closed:
            return
        with suppress(GoQueueError):
            self._run(self.consumer.close())
        self._run(self.client.close())
        self._runner.close()


Loop = SyncLoop | AsyncLoop


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with a hundred orders in two partitions."""
    with Broker() as running:
        with Client(running.http) as client:
            orders = [NewMessage(f"order {each}", partition=each % 2) for each in range(COUNT)]
            client.send(messages.publish("orders", orders))
        yield running


@pytest.fixture
def relay(broker: Broker) -> Iterator[LossyRelay]:
    with lossy_relay(broker.http) as running:
        yield running


@pytest.fixture(params=[SyncLoop, AsyncLoop])
def loop(request: pytest.FixtureRequest, relay: LossyRelay) -> Iterator[Loop]:
    with making(request.param, relay.address) as made:
        yield made


@contextmanager
def making(kind: type[Loop], address: str) -> Iterator[Loop]:
    made = kind(address)
    try:
        yield made
    finally:
        made.close()


def finish(loop: Loop, send: Send = SENDS["consumer"], client: Any = None) -> None:
    """Go on with the loop until nothing comes any more."""
    while polled := loop.poll():
        loop.write(polled, send, client=client)


def written(broker: Broker) -> list[bytes | None]:
    with Client(broker.http) as client:
        return [message.value for message in client.send(messages.read("invoices", 0, limit=1000)).messages]


def all_once(broker: Broker) -> bool:
    found = written(broker)
    return len(found) == COUNT and set(found) == {f"order {each}".encode() for each in range(COUNT)}


def lag(broker: Broker) -> int | None:
    with Client(broker.http) as client:
        return client.send(groups.offsets(GROUP)).lag


def fail(_transaction: Any) -> None:
    raise Trouble


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
@pytest.mark.parametrize("options", [{}, {"auto_commit_s": None}], ids=["auto-commit", "no auto-commit"])
def test_messages_of_an_aborted_transaction_are_polled_again(
    broker: Broker, loop: Loop, send: Send, options: dict[str, Any]
) -> None:
    loop.join(**options)
    loop.write(loop.poll(), send)
    with pytest.raises(Trouble):
        loop.write(loop.poll(), send, after=fail)
    finish(loop, send)
    assert all_once(broker)
    assert lag(broker) == 0


@pytest.mark.parametrize("turn", [0, 2])
def test_messages_are_polled_again_if_the_block_failed_before_it_sent_offsets(
    broker: Broker, loop: Loop, turn: int
) -> None:
    loop.join()
    for _ in range(turn):
        loop.write(loop.poll(), SENDS["membership"])
    with pytest.raises(Trouble):
        loop.write(loop.poll(), SENDS["membership"], before=fail)
    finish(loop, SENDS["membership"])
    assert all_once(broker)


def test_task_that_polled_need_not_name_its_consumer(broker: Broker) -> None:
    async def work() -> None:
        async with AsyncClient(broker.http) as client, client.consumer(GROUP, ["orders"]) as consumer:
            troubles = [Trouble()]
            while polled := await consumer.poll(limit=10, wait_s=0.2):
                with suppress(Trouble):
                    async with client.transaction("billing-1") as transaction:
                        await transaction.publish("invoices", copies(polled))
                        if troubles:
                            raise troubles.pop()
                        await transaction.send_offsets(GROUP, consumer.positions, member=consumer.member)

    asyncio.run(work())
    assert all_once(broker)


@pytest.mark.parametrize("rounds", [0, 1])
def test_both_consumers_of_a_block_rewind_if_it_fails_between_their_offsets(broker: Broker, rounds: int) -> None:
    troubles = [None] * rounds + [Trouble()]
    with Client(broker.http) as client:
        refunds = [NewMessage(f"refund {each}", partition=0) for each in range(20)]
        client.send(messages.publish("refunds", refunds))
        with client.consumer(GROUP, ["orders"]) as orders, client.consumer("refunding", ["refunds"]) as refunds_read:
            while polled := orders.poll(limit=10, wait_s=0.2) + refunds_read.poll(limit=10, wait_s=0.2):
                with suppress(Trouble), client.transaction("billing-1") as transaction:
                    transaction.publish("invoices", copies(polled))
                    transaction.send_offsets(orders)
                    if troubles and (trouble := troubles.pop(0)) is not None:
                        raise trouble
                    transaction.send_offsets(refunds_read)
    read = [f"order {each}".encode() for each in range(COUNT)] + [f"refund {each}".encode() for each in range(20)]
    assert Counter(written(broker)) == Counter(read)


def test_explicit_abort_rewinds_and_leaves_the_block_without_an_error(broker: Broker, loop: Loop) -> None:
    loop.join()
    loop.write(loop.poll(), SENDS["consumer"])
    loop.abort(loop.poll(), SENDS["consumer"])
    finish(loop)
    assert all_once(broker)


def test_aborted_transaction_takes_nothing_more(broker: Broker) -> None:
    with Client(broker.http) as client, client.transaction("billing-1") as transaction:
        transaction.publish("invoices", [NewMessage("never", partition=0)])
        transaction.abort()
        transaction.abort()
        with pytest.raises(Conflict, match="aborted"):
            transaction.publish("invoices", [NewMessage("too late", partition=0)])
        with pytest.raises(Conflict, match="aborted"):
            transaction.send_offsets(GROUP, [])
    assert written(broker) == []


def test_consumer_rewinds_after_a_commit_that_was_fenced(broker: Broker, loop: Loop) -> None:
    loop.join()
    loop.write(loop.poll(), SENDS["consumer"])

    def fence(_transaction: Any) -> None:
        with Client(broker.http) as operator:
            operator.send(transactions.force_abort("billing-1"))

    with pytest.raises(TransactionFenced):
        loop.write(loop.poll(), SENDS["consumer"], after=fence)
    other = loop.other_client(broker.http)
    finish(loop, client=other)
    loop.close_client(other)
    assert all_once(broker)


@pytest.mark.parametrize("doomed", ["commit", "publish", "add-offsets"])
def test_each_message_is_written_once_if_a_reply_is_lost(
    broker: Broker, relay: LossyRelay, loop: Loop, doomed: str
) -> None:
    loop.join()
    loop.write(loop.poll(), SENDS["consumer"])
    relay.doomed.append(doomed)
    with pytest.raises(Unavailable):
        loop.write(loop.poll(), SENDS["consumer"])
    finish(loop)
    assert all_once(broker)


def test_commit_of_which_no_request_arrived_is_carried_out_by_the_next_poll(
    broker: Broker, relay: LossyRelay, loop: Loop
) -> None:
    loop.join()
    relay.doomed += ["commit", "commit"]
    with pytest.raises(Unavailable):
        loop.write(loop.poll(), SENDS["consumer"])
    # The poll asks for the same end before it looks where to go on, and says why it cannot know.
    with pytest.raises(Unavailable):
        loop.poll()
    finish(loop)
    assert all_once(broker)


def test_batch_is_written_once_if_the_user_repeats_the_block_without_a_poll(broker: Broker, loop: Loop) -> None:
    loop.join()
    polled = loop.poll()
    with pytest.raises(Trouble):
        loop.write(polled, SENDS["membership"], after=fail)
    loop.write(polled, SENDS["membership"])
    finish(loop)
    assert all_once(broker)


def test_consumer_that_starts_at_the_end_goes_back_to_where_it_began(broker: Broker, loop: Loop) -> None:
    loop.join(start_at=StartAt.LATEST, auto_commit_s=None)
    assert loop.poll() == []
    with Client(broker.http) as client:
        client.send(messages.publish("orders", [NewMessage("late", partition=0)]))
    with pytest.raises(Trouble):
        loop.write(loop.poll(), SENDS["consumer"], after=fail)
    finish(loop)
    assert written(broker) == [b"late"]


def test_closing_after_an_abort_commits_nothing_of_it(broker: Broker, loop: Loop) -> None:
    loop.join()
    with pytest.raises(Trouble):
        loop.write(loop.poll(), SENDS["consumer"], after=fail)
    loop.close()
    with making(SyncLoop, broker.http) as second:
        second.join()
        finish(second)
    assert all_once(broker)


def test_consumer_of_another_thread_keeps_its_place_when_an_unrelated_transaction_aborts(broker: Broker) -> None:
    with Client(broker.http) as client, client.consumer("others", ["orders"], auto_commit_s=None) as other:
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(other.poll(limit=10)))
        reader.start()
        reader.join()
        with client.transaction("billing-1") as transaction:
            transaction.publish("invoices", [NewMessage("never", partition=0)])
            transaction.abort()
        seen.extend(other.poll(limit=1000))
        while len(seen) < COUNT:
            seen.extend(other.poll(limit=1000))
        assert len({(each.partition, each.offset) for each in seen}) == len(seen)
