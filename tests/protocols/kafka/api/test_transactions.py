"""Transactions, asked by raw clients: every version, and the cases that clients of others do not send.

Each refusal is the protocol's own, and leaves everything as it was.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.protocols.kafka.api_kit import UNKNOWN_TOPIC, pass_time, run
from tests.protocols.kafka.group_kit import COORDINATOR_NOT_AVAILABLE, committed
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic, delete_topic, publish
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.transaction_kit import (
    FENCED,
    INVALID_EPOCH,
    INVALID_MAPPING,
    INVALID_RECORD,
    INVALID_REQUEST,
    INVALID_STATE,
    INVALID_TIMEOUT,
    INVALID_TOPIC,
    NOT_ATTEMPTED,
    OUT_OF_ORDER,
    UNCOMMITTED,
    TxnProducer,
    fetch_as,
    producer_of,
    read,
    stand,
)

BOTH = pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])


@BOTH
@pytest.mark.parametrize("version", range(6))
def test_a_transaction_runs_in_every_version(version: int, is_commit: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        producer = TxnProducer(client)
        assert await producer.init(version) == 0
        before = (producer.producer_id, producer.epoch)
        assert await producer.add(("t", 0), ("t", 1), version=min(version, 3)) == [0, 0]
        produce_version = (3, 5, 8, 9, 11, 12)[version]
        for partition in (0, 1):
            result = await producer.produce(b"a", b"b", partition=partition, version=produce_version)
            assert (result["error_code"], result["base_offset"]) == (0, 0)
        assert await producer.add_group(version=min(version, 4)) == 0
        assert await producer.commit_offsets({0: 7}, version=version) == [0]
        assert await read(client) == []
        assert await committed(client) == {}
        assert await producer.end(is_commit=is_commit, version=version) == 0
        assert (await producer.produce(b"c", sequence=2, version=3))["error_code"] == INVALID_STATE
        for partition in (0, 1):
            assert await read(client, partition=partition) == ([b"a", b"b"] if is_commit else [])
            assert await read(client, partition=partition, isolation=UNCOMMITTED) == [b"a", b"b"]
        assert await committed(client) == ({("t", 0): 7} if is_commit else {})
        assert (producer.producer_id, producer.epoch) == (before[0], before[1] + (version >= 5))

    run(act)


def test_there_is_nothing_to_end_before_a_transaction_begins() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        before = await stand(client)
        for version in range(5):
            for is_commit in (True, False):
                assert await producer.end(is_commit=is_commit, version=version) == INVALID_STATE
        assert await producer.end(is_commit=True) == INVALID_STATE
        assert await stand(client) == before
        # Newer clients do not always know whether anything has begun, and are sure after this.
        assert await producer.end(is_commit=False) == 0
        assert producer.epoch == before[1] + 1

    run(act)


def test_nobody_acts_under_an_id_that_nobody_has_taken() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await producer_of(client)
        nobody = TxnProducer(client, "nobody", 4711, 0)
        assert await nobody.add(("t", 0)) == [INVALID_MAPPING]
        assert await nobody.add_group() == INVALID_MAPPING
        assert await nobody.commit_offsets({0: 1}) == [INVALID_MAPPING]
        assert await nobody.commit_offsets({0: 1}, version=3) == [INVALID_MAPPING]
        assert (await nobody.produce(b"x"))["error_code"] == INVALID_MAPPING
        assert (await nobody.produce(b"x", version=9))["error_code"] == INVALID_MAPPING
        assert await nobody.end(is_commit=True) == INVALID_MAPPING
        assert await read(client, isolation=UNCOMMITTED) == []
        assert await committed(client) == {}

    run(act)


def test_a_producer_id_of_another_is_not_taken_for_ones_own() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        other = TxnProducer(client, "other")
        await other.init()
        await producer.add(("t", 0))
        before = await stand(client)
        imposter = TxnProducer(client, producer.id, other.producer_id, other.epoch)
        assert await imposter.add(("t", 0)) == [INVALID_MAPPING]
        assert await imposter.end(is_commit=True) == INVALID_MAPPING
        assert (await imposter.produce(b"x"))["error_code"] == INVALID_MAPPING
        assert await imposter.init(is_known=True) == FENCED
        assert await stand(client) == before

    run(act)


def test_an_old_epoch_is_refused_by_everybody() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        zombie = await producer_of(client)
        assert (await zombie.produce(b"of a zombie"))["error_code"] == 0
        second = TxnProducer(await server.client())
        assert await second.init() == 0
        assert (await second.produce(b"x"))["error_code"] == 0
        before = await stand(client)
        assert await zombie.add(("t", 0)) == [FENCED]
        assert await zombie.add(("t", 0), version=1) == [INVALID_EPOCH]
        assert await zombie.add_group() == FENCED
        assert await zombie.add_group(version=1) == INVALID_EPOCH
        for version in (3, 5):
            assert await zombie.commit_offsets({0: 1}, version=version) == [INVALID_EPOCH]
        for version in (9, 12):
            assert (await zombie.produce(b"late", sequence=1, version=version))["error_code"] == INVALID_EPOCH
        for version, code in ((1, INVALID_EPOCH), (4, FENCED), (5, FENCED)):
            for is_commit in (True, False):
                assert await zombie.end(is_commit=is_commit, version=version) == code
        assert await zombie.init(4, is_known=True) == FENCED
        assert await zombie.init(3, is_known=True) == INVALID_EPOCH
        assert await stand(client) == before
        assert await second.end(is_commit=True) == 0
        assert await read(client) == [b"x"]
        assert await committed(client) == {}

    run(act)


def test_an_epoch_that_was_never_given_is_refused() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await producer.add(("t", 0))
        before = await stand(client)
        future = TxnProducer(client, producer.id, producer.producer_id, producer.epoch + 1)
        assert await future.add(("t", 0)) == [FENCED]
        assert (await future.produce(b"x"))["error_code"] == INVALID_EPOCH
        assert await future.end(is_commit=True) == FENCED
        assert await stand(client) == before

    run(act)


def test_records_go_only_to_partitions_of_the_transaction() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client, partitions=2)
        assert await producer.add(("t", 0)) == [0]
        before = await stand(client)
        assert (await producer.produce(b"x", partition=1, version=11))["error_code"] == INVALID_STATE
        assert await stand(client) == before
        assert await read(client, isolation=UNCOMMITTED, partition=1) == []
        # From version 12 on, writing to a partition makes it part of the transaction.
        assert (await producer.produce(b"x", partition=1, version=12))["error_code"] == 0
        assert (await stand(client))[2] == [{"topic": "t", "partitions": [0, 1]}]

    run(act)


def test_records_of_a_transaction_say_so_and_no_others_do() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await producer.add(("t", 0))
        plain = await producer.produce(b"x", is_transactional=False)
        assert plain["error_code"] == INVALID_RECORD
        without_id = await publish(client, "t", producer.batch(b"x"))
        assert without_id["error_code"] == INVALID_STATE
        assert await read(client, isolation=UNCOMMITTED) == []

    run(act)


def test_a_gap_in_the_sequence_is_refused_and_a_repetition_is_not_stored_twice() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        first = await producer.produce(b"a", b"b")
        assert (await producer.produce(b"d", sequence=3))["error_code"] == OUT_OF_ORDER
        again = await producer.produce(b"a", b"b")
        assert (again["error_code"], again["base_offset"]) == (0, first["base_offset"])
        assert (await producer.produce(b"c", sequence=2))["error_code"] == 0
        await producer.end(is_commit=True)
        assert await read(client) == [b"a", b"b", b"c"]

    run(act)


def test_partitions_are_added_all_or_none() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        before = await stand(client)
        assert await producer.add(("t", 0), ("none", 0), ("t", 5)) == [NOT_ATTEMPTED, UNKNOWN_TOPIC, UNKNOWN_TOPIC]
        assert await stand(client) == before
        assert await producer.add(("t", 0)) == [0]

    run(act)


def test_what_belongs_to_the_broker_becomes_part_of_no_transaction() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await committed(client)  # makes the topic of groups
        before = await stand(client)
        for topic in ("__transactions", "__consumer_offsets", "__catalog"):
            assert await producer.add(("t", 0), (topic, 0)) == [NOT_ATTEMPTED, INVALID_TOPIC]
            assert (await producer.produce(b"x", topic=topic))["error_code"] in {INVALID_TOPIC, UNKNOWN_TOPIC}
        assert await stand(client) == before

    run(act)


@BOTH
def test_an_end_raises_the_epoch_and_what_comes_late_is_refused(is_commit: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client, partitions=2)
        await producer.produce(b"one")
        old = TxnProducer(await server.client(), producer.id, producer.producer_id, producer.epoch)
        assert await producer.end(is_commit=is_commit) == 0
        assert producer.epoch == old.epoch + 1
        await producer.produce(b"two")
        before = await stand(client)
        # All of these belong to the transaction before, and come too late.
        for partition in (0, 1):
            late = await old.produce(b"late", sequence=1 - partition, partition=partition)
            assert late["error_code"] == INVALID_EPOCH
        assert await old.add(("t", 1)) == [FENCED]
        assert await old.commit_offsets({0: 9}) == [INVALID_EPOCH]
        assert await old.end(is_commit=is_commit) == FENCED
        assert await old.end(is_commit=not is_commit) == FENCED
        assert await stand(client) == before
        assert await producer.end(is_commit=True) == 0
        assert await read(client) == ([b"one", b"two"] if is_commit else [b"two"])
        assert await read(client, partition=1, isolation=UNCOMMITTED) == []

    run(act)


@BOTH
@pytest.mark.parametrize("version", [4, 5])
def test_an_end_whose_reply_was_lost_is_told_again(version: int, is_commit: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await producer.produce(b"x")
        lost = TxnProducer(client, producer.id, producer.producer_id, producer.epoch)
        assert await producer.end(is_commit=is_commit, version=version) == 0
        before = await stand(client)
        again = TxnProducer(client, lost.id, lost.producer_id, lost.epoch)
        assert await again.end(is_commit=not is_commit, version=version) == INVALID_STATE
        assert await again.end(is_commit=is_commit, version=version) == 0
        assert again == producer
        assert await stand(client) == before

    run(act)


def test_an_end_that_is_asked_for_on_two_connections_at_once_happens_once() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await producer.produce(b"x")
        others = [
            TxnProducer(await server.client(), producer.id, producer.producer_id, producer.epoch) for _ in range(5)
        ]
        codes = await asyncio.gather(producer.end(is_commit=True), *(each.end(is_commit=True) for each in others))
        assert codes == [0] * 6
        assert {each.epoch for each in others} == {producer.epoch}
        assert await read(client) == [b"x"]
        assert (await fetch_as(client))["high_watermark"] == 2

    run(act)


def test_a_producer_goes_on_with_the_identity_that_it_has() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for version in (3, 4, 5):
            producer = TxnProducer(client, f"v{version}")
            assert await producer.init(version) == 0
            before = TxnProducer(client, producer.id, producer.producer_id, producer.epoch)
            assert await producer.init(version, is_known=True) == 0
            assert (producer.producer_id, producer.epoch) == (before.producer_id, before.epoch + 1)
            # The reply was lost: it asks again, and is told the same.
            assert await before.init(version, is_known=True) == 0
            assert before == producer

    run(act)


def test_a_producer_that_takes_an_id_again_ends_what_was_under_way() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await producer.produce(b"left behind")
        await publish(client, "t", TxnProducer(client).batch(b"behind it", sequence=-1, is_transactional=False))
        assert await read(client) == []
        assert await producer.init() == 0
        assert await read(client) == [b"behind it"]
        assert (await stand(client))[0] == "Empty"

    run(act)


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "code"),
    [
        ("", 1000, INVALID_REQUEST),
        ("x", 0, INVALID_TIMEOUT),
        ("x", -1, INVALID_TIMEOUT),
        ("x", 900_001, INVALID_TIMEOUT),
    ],
)
def test_an_id_or_timeout_that_cannot_be_is_refused(transactional_id: str, timeout_ms: int, code: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert await TxnProducer(client, transactional_id).init(timeout_ms=timeout_ms) == code

    run(act)


def test_a_transaction_that_takes_too_long_ends_by_itself_and_the_readers_go_on() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        producer = TxnProducer(client)
        await producer.init(timeout_ms=10_000)
        await producer.produce(b"hanging")
        await producer.commit_offsets({0: 7})
        await publish(client, "t", TxnProducer(client).batch(b"behind it", sequence=-1, is_transactional=False))
        await pass_time(9.5)
        assert (await fetch_as(client))["last_stable_offset"] == 0
        assert await read(client) == []
        await pass_time(1)
        result = await fetch_as(client)
        assert result["last_stable_offset"] == result["high_watermark"] == 3
        assert await read(client) == [b"behind it"]
        assert await committed(client) == {}
        assert (await stand(client))[0] == "CompleteAbort"
        assert await producer.end(is_commit=True) == FENCED
        assert (await producer.produce(b"late", sequence=1))["error_code"] == INVALID_EPOCH
        assert await producer.init() == 0

    run(act)


def test_a_topic_that_is_deleted_meanwhile_holds_up_nobody() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await create_topic(client, "u")
        await producer.produce(b"x")
        await producer.produce(b"y", topic="u")
        assert await delete_topic(client, "t") == 0
        await create_topic(client, "t")
        assert await producer.end(is_commit=True) == 0
        assert await read(client, topic="u") == [b"y"]
        assert await read(client) == []
        assert (await stand(client))[0] == "CompleteCommit"
        await publish(client, "t", TxnProducer(client).batch(b"new", sequence=-1, is_transactional=False))
        assert await read(client) == [b"new"]

    run(act)


def test_a_partition_that_takes_no_writes_holds_up_no_other() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await create_topic(client, "u")
        await producer.produce(b"x")
        await producer.produce(b"y", topic="u")
        broker = server.server.broker
        broker.topics.topic("t").partition(0).log.go_offline("its disk is broken")
        ending = asyncio.ensure_future(producer.end(is_commit=True))
        await pass_time(3)
        assert not ending.done()
        healthy = broker.topics.topic("u").partition(0)
        assert healthy.last_stable_offset == healthy.high_watermark == 2
        broker.release()
        assert await ending == COORDINATOR_NOT_AVAILABLE

    run(act)
