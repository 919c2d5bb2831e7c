"""Transactions whose end is decided, with a partition that takes no marker: who waits is told in time, and why."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker.pipeline import Caller
from goqueue.broker.transactions import ANSWER_WITHIN_S, abort_transaction, end_transaction, init_transactions
from goqueue.errors import CoordinatorUnavailable
from goqueue.machines.transaction_values import ProducerIdentity
from tests.kafka.api_kit import pass_time, run
from tests.kafka.group_kit import COORDINATOR_NOT_AVAILABLE
from tests.kafka.raw import RawClient
from tests.kafka.requests import create_topic, delete_topic
from tests.kafka.server import SimServer
from tests.kafka.transaction_kit import TxnProducer, producer_of, read, stand

ANYBODY = Caller("test")


async def offline(server: SimServer, client: RawClient) -> TxnProducer:
    """Return a producer with messages in `t`, which takes no more writes, and in `u`, which does."""
    producer = await producer_of(client)
    await create_topic(client, "u")
    await producer.produce(b"x")
    await producer.produce(b"y", topic="u")
    server.server.broker.topic("t").partition(0).log.go_offline("its disk is broken")
    return producer


def test_an_end_is_answered_in_time_and_may_be_asked_for_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await offline(server, client)
        for _ in range(3):
            ending = asyncio.ensure_future(producer.end(is_commit=True))
            await pass_time(ANSWER_WITHIN_S - 1)
            assert not ending.done()
            await pass_time(2)
            assert await ending == COORDINATOR_NOT_AVAILABLE
        assert (await stand(client))[0] == "PrepareCommit"
        assert await read(client, topic="u") == [b"y"]
        # Nothing is left to be written to.
        assert await delete_topic(client, "t") == 0
        assert await producer.end(is_commit=True) == 0
        assert (await stand(client))[0] == "CompleteCommit"

    run(act)


def test_whoever_takes_the_id_meanwhile_is_answered_in_time() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await offline(server, client)
        taking = asyncio.ensure_future(TxnProducer(client).init())
        await pass_time(ANSWER_WITHIN_S + 1)
        assert await taking == COORDINATOR_NOT_AVAILABLE
        assert await delete_topic(client, "t") == 0
        assert await TxnProducer(client).init() == 0

    run(act)


def test_the_answer_names_the_partition_and_what_to_do() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await offline(server, client)
        broker = server.server.broker
        identity = ProducerIdentity(producer.producer_id, producer.epoch)
        for waiting in (
            end_transaction(broker, ANYBODY, "payments", identity, is_commit=False),
            init_transactions(broker, ANYBODY, "payments", 60_000),
            abort_transaction(broker, ANYBODY, "payments"),
        ):
            with pytest.raises(CoordinatorUnavailable, match=r"cannot end: t-0: .*its disk is broken") as told:
                await waiting
            assert told.value.retriable
            assert "delete the topic" in told.value.hint

    run(act)
