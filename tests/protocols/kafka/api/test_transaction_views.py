"""What administrators ask of transactions and producers, by raw clients."""

from __future__ import annotations

from tests.protocols.kafka.api_kit import UNKNOWN_TOPIC, pass_time, run
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.transaction_kit import (
    DESCRIBE_PRODUCERS,
    UNKNOWN_ID,
    TxnProducer,
    describe,
    list_transactions,
)


async def producers(client: RawClient, topic: str, *partitions: int) -> list[Plain]:
    """Return what is told of the producers of partitions."""
    request = {"topics": [{"name": topic, "partition_indexes": list(partitions)}]}
    (found,) = (await client.call(DESCRIBE_PRODUCERS, 0, request))["topics"]
    told: list[Plain] = found["partitions"]
    return told


def test_a_transaction_is_described_with_its_partitions() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for topic in ("b", "a"):
            await create_topic(client, topic, partitions=3)
        producer = TxnProducer(client)
        await producer.init(timeout_ms=30_000)
        began_ms = server.simulation.clock.now_ms()
        await producer.add(("b", 2), ("a", 1), ("b", 0))
        found, unknown = await describe(client, producer.id, "nobody")
        assert 0 <= found.pop("transaction_start_time") - began_ms < 1000
        assert found == {
            "error_code": 0,
            "transactional_id": producer.id,
            "transaction_state": "Ongoing",
            "transaction_timeout": 30_000,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "topics": [{"topic": "a", "partitions": [1]}, {"topic": "b", "partitions": [0, 2]}],
        }
        assert (unknown["error_code"], unknown["transactional_id"]) == (UNKNOWN_ID, "nobody")

    run(act)


def test_the_list_is_filtered_by_state_producer_and_age() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert (await list_transactions(client))["transaction_states"] == []
        await create_topic(client, "t")
        idle, old, young = (TxnProducer(client, name) for name in ("idle", "old", "young"))
        for producer in (idle, old, young):
            await producer.init()
        await old.add(("t", 0))
        await pass_time(10)
        await young.add(("t", 0))

        async def names(version: int = 1, **filters: object) -> list[str]:
            reply = await list_transactions(client, version, **filters)
            assert (reply["error_code"], reply["unknown_state_filters"]) == (0, [])
            return [each["transactional_id"] for each in reply["transaction_states"]]

        assert await names(0) == await names() == ["idle", "old", "young"]
        assert await names(state_filters=["Ongoing"]) == ["old", "young"]
        assert await names(state_filters=["Ongoing", "Empty"]) == ["idle", "old", "young"]
        assert await names(producer_id_filters=[young.producer_id, 4711]) == ["young"]
        assert await names(state_filters=["Ongoing"], duration_filter=5_000) == ["old"]
        reply = await list_transactions(client, state_filters=["Sleeping", "Empty"])
        assert reply["unknown_state_filters"] == ["Sleeping"]
        assert [each["transactional_id"] for each in reply["transaction_states"]] == ["idle"]
        assert reply["transaction_states"][0] == {
            "transactional_id": "idle",
            "producer_id": idle.producer_id,
            "transaction_state": "Empty",
        }

    run(act)


def test_partitions_tell_of_their_producers_and_of_transactions_that_are_open() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        producer = TxnProducer(client)
        await producer.init()
        await producer.produce(b"a", b"b")
        await producer.produce(b"c", sequence=2)
        full, empty, missing = await producers(client, "t", 0, 1, 7)
        assert (empty["error_code"], empty["active_producers"]) == (0, [])
        assert (missing["error_code"], missing["active_producers"]) == (UNKNOWN_TOPIC, [])
        (known,) = full["active_producers"]
        assert (known["producer_id"], known["producer_epoch"]) == (producer.producer_id, producer.epoch)
        assert (known["last_sequence"], known["current_txn_start_offset"]) == (2, 0)
        await producer.end(is_commit=True)
        (partition,) = await producers(client, "t", 0)
        (known,) = partition["active_producers"]
        assert (known["producer_epoch"], known["current_txn_start_offset"]) == (producer.epoch, -1)

    run(act)
