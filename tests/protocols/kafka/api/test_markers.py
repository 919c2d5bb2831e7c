"""WriteTxnMarkers with very many markers: each is answered, equal ones alike, and nobody waits for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.broker.admission import Caller
from goqueue.protocols.kafka.api.context import Context
from goqueue.protocols.kafka.api.transactions.markers import write_txn_markers
from goqueue.runtime.waiters import arrival
from tests.protocols.kafka.api_kit import run
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.transaction_kit import INVALID_STATE, producer_of, stand

WRITE_MARKERS = 27


def marker(producer_id: int, epoch: int = 0, *indexes: int) -> Plain:
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": False,
        "topics": [{"name": "t", "partition_indexes": list(indexes or (0,))}],
        "coordinator_epoch": 0,
    }


def codes(reply: Mapping[str, Any]) -> list[int]:
    return [part["error_code"] for each in reply["markers"] for part in each["topics"][0]["partitions"]]


@pytest.mark.parametrize(
    "markers",
    [
        [marker(7)] * 2_000,
        [marker(number) for number in range(1, 2_001)],
        [marker(7, 0, *range(2_000))],
    ],
    ids=["equal", "of many producers", "of many partitions"],
)
def test_others_have_their_turns_while_there_are_many_markers(markers: list[Plain]) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        context = Context(server.server.broker, Caller("test"), ("broker", 1))
        writing = asyncio.ensure_future(write_txn_markers(context, _request({"markers": markers})))
        turns = 0
        while not writing.done():
            await arrival(asyncio.get_running_loop().call_soon)
            turns += 1
        assert len(codes(writing.result())) == 2_000
        assert turns >= 2_000 / 500

    run(act)


def _request(values: Any) -> Any:
    """Return a request as it is read from a frame."""
    if isinstance(values, dict):
        return SimpleNamespace(**{name: _request(value) for name, value in values.items()})
    return [_request(each) for each in values] if isinstance(values, list) else values


def test_equal_markers_are_carried_out_once_and_answered_alike() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await producer.produce(b"x")
        wanted = marker(producer.producer_id, producer.epoch)
        reply = await client.call(WRITE_MARKERS, 1, {"markers": [wanted, marker(7), wanted]})
        assert codes(reply) == [0, INVALID_STATE, 0]
        assert (await stand(client))[0] == "CompleteAbort"

    run(act)
