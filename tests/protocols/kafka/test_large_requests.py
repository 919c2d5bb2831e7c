"""Requests with very many parts are handled in pieces: other connections have their turns in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from goqueue.broker.admission import Caller
from goqueue.broker.messages.produce import Publish, publish
from goqueue.broker.messages.service import MessageService
from goqueue.protocols.kafka.api.messages.produce import SECTIONS_AT_ONCE, pieces_of
from goqueue.protocols.kafka.wire import connection as kafka_connection
from goqueue.testing import Simulation, simulate
from goqueue.testing.loop import SimLoop
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import DESCRIBE_CONFIGS, LIST_OFFSETS, METADATA, PRODUCE
from tests.protocols.kafka.requests import ALL, create_topic, produce, produced
from tests.protocols.kafka.server import SimServer, serving
from tests.protocols.kafka.share_kit import ShareMember
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(3, long_count=30)
DESCRIBE_LOG_DIRS, ELECT_LEADERS, DESCRIBE_QUORUM, ALTER_SHARE_OFFSETS, DELETE_SHARE_OFFSETS = 35, 43, 55, 91, 92
UNKNOWN_TOPIC, SOME = 3, 1_000


def _produce(sections: Sequence[tuple[str, int, bytes | bytearray]]) -> Plain:
    topics = [{"name": name, "partition_data": [{"index": index, "records": data}]} for name, index, data in sections]
    return {"transactional_id": None, "acks": ALL, "timeout_ms": 1000, "topic_data": topics}


@SEEDS
def test_publish_to_very_many_partitions_is_done_in_pieces_and_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def noted(messages: MessageService, caller: Caller, requests: Sequence[Publish]) -> None:
        sizes.append(sum(len(each.sections) for each in requests))
        publish(messages, caller, requests)

    monkeypatch.setattr(kafka_connection, "publish", noted)

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t", partitions=2)
            count = 2 * SECTIONS_AT_ONCE + 1
            sections = [(["t", "t", "none"][number % 3], [0, 1, 0][number % 3], batch(b"x")) for number in range(count)]
            client.send(PRODUCE, 9, _produce(sections))
            client.send(PRODUCE, 9, produce("t", batch(b"last"), acks=ALL))
            answered = (await client.reply())["responses"]
            results = [part for topic in answered for part in topic["partition_responses"]]
            for number, result in enumerate(results):
                if number % 3 == 2:
                    assert result["error_code"] == UNKNOWN_TOPIC
                else:
                    assert (result["error_code"], result["base_offset"]) == (0, number // 3)
            assert len(results) == count
            assert sizes[:3] == [SECTIONS_AT_ONCE, SECTIONS_AT_ONCE, 1]
            assert produced(await client.reply())["base_offset"] == (count + 2) // 3

    simulate(main, seed)


@SEEDS
def test_large_frame_is_published_whole_and_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_connection, "_LARGE_BYTES", 300_000)

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            sections = [("t", 0, batch(bytes([number]) * 700_000)) for number in range(4)]
            client.send(PRODUCE, 9, _produce(sections))
            for _ in range(3):
                client.send(PRODUCE, 9, produce("t", batch(b"small"), acks=ALL))
            answered = (await client.reply())["responses"]
            assert [topic["partition_responses"][0]["base_offset"] for topic in answered] == [0, 1, 2, 3]
            assert [produced(await client.reply())["base_offset"] for _ in range(3)] == [4, 5, 6]
            partition = server.server.broker.topics.topic("t").partition(0)
            stored = partition.read(0, bytes_max=10_000_000)
            assert all(bytes([number]) * 700_000 in stored for number in range(4))

    simulate(main, seed)


def test_pieces_have_few_sections_and_few_bytes() -> None:
    class _Section:
        def __init__(self, size: int) -> None:
            self.records = bytes(size)

    sizes = [[600_000, 600_000, 5_000_000, 1], [1] * 150, [], [7]]
    found = [[len(piece) for piece in pieces_of([_Section(size) for size in each])] for each in sizes]  # type: ignore[misc]
    assert found == [[1, 1, 1, 1], [64, 64, 22], [0], [1]]


_TOPICS = [{"name": f"none-{number}"} for number in range(SOME)]
_PARTS = list(range(SOME))
MANY: dict[str, tuple[int, int, Plain]] = {
    "metadata": (METADATA, 12, {"topics": _TOPICS, "allow_auto_topic_creation": False}),
    "settings": (
        DESCRIBE_CONFIGS,
        4,
        {"resources": [{"resource_type": 2, "resource_name": each["name"]} for each in _TOPICS]},
    ),
    "offsets": (
        LIST_OFFSETS,
        7,
        {
            "replica_id": -1,
            "topics": [{"name": "t", "partitions": [{"partition_index": each, "timestamp": -1} for each in _PARTS]}],
        },
    ),
    "elections": (ELECT_LEADERS, 2, {"topic_partitions": [{"topic": "t", "partitions": _PARTS}], "timeout": 1000}),
    "quorum": (
        DESCRIBE_QUORUM,
        2,
        {"topics": [{"topic_name": "x", "partitions": [{"partition_index": each} for each in _PARTS]}]},
    ),
    "log directories": (DESCRIBE_LOG_DIRS, 4, {"topics": [{"topic": "t", "partitions": list(range(20 * SOME))}]}),
    "share offsets": (
        ALTER_SHARE_OFFSETS,
        0,
        {
            "group_id": "g",
            "topics": [
                {"topic_name": "t", "partitions": [{"partition_index": each, "start_offset": 0} for each in _PARTS]}
            ],
        },
    ),
    "share topics": (
        DELETE_SHARE_OFFSETS,
        0,
        {"group_id": "g", "topics": [{"topic_name": each["name"]} for each in _TOPICS]},
    ),
}


@pytest.mark.parametrize("request_", MANY.values(), ids=MANY)
@pytest.mark.parametrize("large_bytes", [1_000, 10_000_000])
def test_request_about_very_many_things_leaves_others_turns(
    request_: tuple[int, int, Plain], large_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_connection, "_LARGE_BODY_BYTES", large_bytes)

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            where = ((await create_topic(client, "t", partitions=4))["topic_id"], 0)
            await _group_without_members(server, where)
            before = _steps()
            await client.call(*request_)
            # A request about one thing takes some twenty.
            assert _steps() - before > 50

    simulate(main, 1)


def _steps() -> int:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return loop.steps


async def _group_without_members(server: SimServer, where: tuple[object, int]) -> None:
    client = await server.client("sharer")
    member = ShareMember(client)
    await member.heartbeat()
    await member.fetch(where)  # type: ignore[arg-type]
    await member.close()
    await member.heartbeat(member_epoch=-1)


def test_malformed_large_request_is_refused() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, other = await server.client(), await server.client("other")
            whole = client.prepared(METADATA, 12, {"topics": [{"name": "x" * 200}] * 1000})
            size = len(whole) - 1_000
            client.write((size - 4).to_bytes(4, "big") + whole[4:size])
            await client.ended()
            assert (await other.call(METADATA, 12, {"topics": None}))["topics"] == []

    simulate(main, 1)


def test_log_directories_open_no_log_that_is_asleep() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            log = server.server.broker.topics.topic("t").partition(0).log
            assert log.is_unopened
            (found,) = (await client.call(DESCRIBE_LOG_DIRS, 4, {"topics": None}))["results"]
            assert found["topics"][0]["partitions"][0]["partition_size"] == 0
            assert log.is_unopened

    simulate(main, 1)
