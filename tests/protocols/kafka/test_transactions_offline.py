"""Transactions whose end is decided, with a partition that takes no marker: who waits is told in time, and why."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker.admission import Caller
from goqueue.broker.transactions.coordination import (
    ANSWER_WITHIN_S,
    abort_transaction,
    end_transaction,
    init_transactions,
)
from goqueue.broker.transactions.sinks import commit_batch
from goqueue.errors import CoordinatorUnavailable
from goqueue.machines.transactions.values import ProducerEpoch, SinkStage
from tests.protocols.kafka.api_kit import UNKNOWN_TOPIC, pass_time, run
from tests.protocols.kafka.group_kit import COORDINATOR_NOT_AVAILABLE
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic, delete_topic
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.transaction_kit import TxnProducer, producer_of, read, stand

ANYBODY = Caller("test")
WRITE_MARKERS = 27


async def offline(server: SimServer, client: RawClient) -> TxnProducer:
    """Return a producer with messages in `t`, which takes no more writes, and in `u`, which does."""
    producer = await producer_of(client)
    await create_topic(client, "u")
    await producer.produce(b"x")
    await producer.produce(b"y", topic="u")
    server.server.broker.topics.topic("t").partition(0).log.go_offline("its disk is broken")
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


async def write_markers(producer: TxnProducer, *places: tuple[str, int]) -> dict[tuple[str, int], int]:
    """Abort what a producer has in partitions, as administrators do; return the error codes."""
    named: dict[str, list[int]] = {}
    for topic, index in places:
        named.setdefault(topic, []).append(index)
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": indexes} for topic, indexes in named.items()],
        "coordinator_epoch": 0,
    }
    (told,) = (await producer.client.call(WRITE_MARKERS, 1, {"markers": [marker]}))["markers"]
    return {
        (topic["name"], part["partition_index"]): part["error_code"]
        for topic in told["topics"]
        for part in topic["partitions"]
    }


def test_markers_for_all_partitions_of_a_transaction_end_it_once() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await create_topic(client, "u")
        await producer.produce(b"x")
        await producer.produce(b"y", topic="u")
        assert await write_markers(producer, ("t", 0), ("u", 0), ("v", 0)) == {
            ("t", 0): 0,
            ("u", 0): 0,
            ("v", 0): UNKNOWN_TOPIC,
        }
        assert (await stand(client))[0] == "CompleteAbort"

    run(act)


def test_markers_are_answered_in_time_however_many_there_are() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await offline(server, client)
        writing = asyncio.ensure_future(write_markers(producer, ("t", 0), ("u", 0), ("t", 0)))
        await pass_time(ANSWER_WITHIN_S + 1)
        assert await writing == dict.fromkeys([("t", 0), ("u", 0)], COORDINATOR_NOT_AVAILABLE)

    run(act)


def test_a_commit_of_a_batch_is_answered_in_time_whatever_it_stages() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        stages = []
        for task in range(3):
            producer = TxnProducer(client, id=f"goqueue-sink:s:{task}:0")
            assert await producer.init() == 0
            assert await producer.add(("t", 0)) == [0]
            await producer.produce(b"x")
            stages.append(SinkStage(producer.id, producer.producer_id, producer.epoch))
        server.server.broker.topics.topic("t").partition(0).log.go_offline("its disk is broken")
        for _ in range(2):
            committing = asyncio.ensure_future(commit_batch(server.server.broker.transactions, ANYBODY, "s", 1, stages))
            await pass_time(ANSWER_WITHIN_S + 1)
            assert committing.done()
            with pytest.raises(CoordinatorUnavailable, match=r"cannot end: t-0: .*its disk is broken"):
                await committing
        assert await delete_topic(client, "t") == 0
        assert not (await commit_batch(server.server.broker.transactions, ANYBODY, "s", 1, stages)).is_new

    run(act)


def test_the_answer_names_the_partition_and_what_to_do() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await offline(server, client)
        broker = server.server.broker
        identity = ProducerEpoch(producer.producer_id, producer.epoch)
        for waiting in (
            end_transaction(broker.transactions, ANYBODY, "payments", identity, is_commit=False),
            init_transactions(broker.transactions, ANYBODY, "payments", 60_000),
            abort_transaction(broker.transactions, ANYBODY, "payments"),
        ):
            with pytest.raises(CoordinatorUnavailable, match=r"cannot end: t-0: .*its disk is broken") as told:
                await waiting
            assert told.value.retriable
            assert "delete the topic" in told.value.hint

    run(act)
