"""Kept replies of numbered requests: little of each, up to a limit."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePath

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.broker import Broker
from goqueue.broker.messages.publish import Fate, NewMessage, PartitionTurns
from goqueue.broker.transactions.coordination import end_transaction, init_transactions
from goqueue.broker.transactions.publish import TransactionWriter
from goqueue.broker.transactions.request_dedup import TransactionRequestDedup
from goqueue.errors import GoQueueError, InvalidRecord, OutOfOrderSequence
from goqueue.model.broker_options import BrokerOptions
from goqueue.model.request_limits import MESSAGES_MAX
from goqueue.testing import RecordingSink, SimDisk, Simulation, simulate

ONE: Sequence[NewMessage | GoQueueError] = [NewMessage(None, b"x", partition=0)]


class Sender:
    """Transactions of a broker, and the numbering under test."""

    def __init__(self, broker: Broker, bytes_max: int) -> None:
        self.broker = broker
        self.numbering = TransactionRequestDedup(bytes_max)
        self._turns = PartitionTurns()

    async def writer(self, name: str) -> TransactionWriter:
        return TransactionWriter(name, await init_transactions(self.broker.transactions, INSIDE, name, 60_000))

    async def publish(
        self,
        writer: TransactionWriter,
        number: int,
        messages: Sequence[NewMessage | GoQueueError],
    ) -> list[Fate]:
        return await self.numbering.publish(
            self.broker.transactions, INSIDE, self._turns, writer, number, "t", messages
        )

    async def end(self, writer: TransactionWriter, *, bumps_epoch: bool = True) -> None:
        """End a transaction in another way than by HTTP, so the numbering does not hear of it."""
        await end_transaction(self.broker.transactions, INSIDE, *writer, is_commit=True, bumps_epoch=bumps_epoch)


def run(act: Callable[[Sender], Awaitable[None]], *, bytes_max: int = 2**20) -> None:
    """Let a sender publish to a broker of its own."""

    async def main(simulation: Simulation) -> None:
        broker = Broker(
            SimDisk(seed=1),
            PurePath("data"),
            BrokerOptions(),
            clock=simulation.clock,
            entropy=simulation.entropy,
            sink=RecordingSink(),
        )
        await broker.start()
        await act(Sender(broker, bytes_max))
        await broker.stop()

    simulate(main, 0)


def test_kept_replies_are_forgotten_with_their_transactions() -> None:
    async def act(sender: Sender) -> None:
        staying = await sender.writer("staying")
        first = await sender.publish(staying, 0, ONE)
        for number in range(50):
            writer = await sender.writer(f"t-{number}")
            await sender.publish(writer, 0, ONE)
            await sender.end(writer)
            assert sender.numbering.kept_bytes <= 20_000
        assert 0 < len(sender.numbering) < 50
        # Only what has ended was forgotten.
        assert await sender.publish(staying, 0, ONE) == first

    run(act, bytes_max=20_000)


def test_transactions_under_way_keep_no_more_than_they_may_and_the_oldest_has_to_abort() -> None:
    async def act(sender: Sender) -> None:
        writers = [await sender.writer(f"t-{number}") for number in range(50)]
        for writer in writers:
            await sender.publish(writer, 0, ONE)
            assert sender.numbering.kept_bytes <= 20_000
        for number in (0, 1):
            with pytest.raises(OutOfOrderSequence, match="abort"):
                await sender.publish(writers[0], number, ONE)
        await sender.publish(writers[-1], 1, ONE)

    run(act, bytes_max=20_000)


def test_a_transaction_with_the_same_identity_as_the_one_before_counts_from_the_beginning() -> None:
    async def act(sender: Sender) -> None:
        writer = await sender.writer("old")
        offsets = []
        for _ in range(3):
            (fate,) = await sender.publish(writer, 0, ONE)
            assert not isinstance(fate, GoQueueError)
            offsets.append(fate.offset)
            await sender.end(writer, bumps_epoch=False)
        # Each is after the marker of the one before.
        assert offsets == [0, 2, 4]

    run(act)


@pytest.mark.parametrize(
    "messages",
    [
        [NewMessage(None, b"", partition=0)] * MESSAGES_MAX,
        [NewMessage(b"%d" % number, b"", timestamp=1_700_000_000_000 + number) for number in range(MESSAGES_MAX)],
        [NewMessage(None, b"", partition=9)] * MESSAGES_MAX,
    ],
    ids=["one batch", "times of their own", "all refused"],
)
def test_a_large_request_takes_little(messages: list[NewMessage]) -> None:
    async def act(sender: Sender) -> None:
        writer = await sender.writer("w")
        await sender.publish(writer, 0, ONE)
        tracemalloc.start()
        try:
            await sender.publish(writer, 1, messages)
            gc.collect()
            kept = tracemalloc.take_snapshot().filter_traces(
                [tracemalloc.Filter(inclusive=True, filename_pattern="*/broker/transactions/request_dedup.py")]
            )
        finally:
            tracemalloc.stop()
        taken = sum(each.size for each in kept.statistics("filename"))
        assert taken < 250 * 1024
        assert taken / 2 < sender.numbering.kept_bytes

    run(act, bytes_max=16 * 2**20)


def test_errors_are_kept_without_where_they_came_from() -> None:
    def refusal(number: int) -> GoQueueError:
        try:
            raise InvalidRecord(f"message {number} is none")
        except GoQueueError as error:
            return error

    async def act(sender: Sender) -> None:
        errors = [refusal(number) for number in range(3)]
        writer = await sender.writer("w")
        fates = await sender.publish(writer, 0, [*ONE, *errors])
        assert all(each.__traceback__ is None for each in errors)
        again = await sender.publish(writer, 0, [*ONE, *map(refusal, range(3))])
        assert [str(each) for each in again] == [str(each) for each in fates]

    run(act)
