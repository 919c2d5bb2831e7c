"""What transactional producers are told while the broker cannot serve them: something that they try again."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.messages.produce import Acks, Publish, Section
from goqueue.broker.transactions.publish import publish_when_known
from goqueue.errors import UnknownTopic
from goqueue.runtime.partition import Appended, Outcome
from tests.protocols.kafka.api_kit import NOT_ENOUGH_REPLICAS, pass_time, run
from tests.protocols.kafka.group_kit import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
from tests.protocols.kafka.raw import INIT_PRODUCER_ID, PRODUCE, RawClient
from tests.protocols.kafka.requests import create_topic, delete_topic, produce, produced
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.transaction_kit import CONCURRENT, TxnProducer, producer_of, read

NOT_LEADER, COORDINATOR_LOADING, STORAGE_ERROR = 6, 14, 56
Trouble = Callable[[SimServer], None]


def no_room_for_coordinators(server: SimServer) -> None:
    """Let the disk take nothing more into the logs of coordinators."""
    server.disk.fail(errno.ENOSPC, operation="write", path="__*/*.log", times=None)


def guarded_disk(server: SimServer) -> None:
    """Let the disk guard refuse writes."""
    server.server.broker.core.admission.is_disk_guarded = True


def draining(server: SimServer) -> None:
    """Let the broker be about to stop."""
    server.server.broker.core.admission.is_draining = True


def end_trouble(server: SimServer) -> None:
    """Let everything work again."""
    server.disk.heal()
    admission = server.server.broker.core.admission
    admission.is_disk_guarded = admission.is_draining = False


TROUBLES = pytest.mark.parametrize("trouble", [no_room_for_coordinators, guarded_disk, draining])


@TROUBLES
def test_producers_look_for_their_coordinator_again(trouble: Trouble) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client, partitions=2)
        assert (await producer.produce(b"x"))["error_code"] == 0
        # The topic of groups is there, and the producer ids that were taken at once are used up.
        assert await producer.commit_offsets({0: 1}) == [0]
        server.server.broker.transactions.producer_ids.end = server.server.broker.transactions.producer_ids.next_id
        trouble(server)
        codes = {
            "AddPartitionsToTxn": (await producer.add(("t", 1)))[0],
            "AddOffsetsToTxn": await producer.add_group("h"),
            "TxnOffsetCommit": (await producer.commit_offsets({0: 2}))[0],
            "EndTxn": await producer.end(is_commit=True),
            "InitProducerId": await TxnProducer(client, "other").init(),
        }
        assert set(codes.values()) <= {COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}, codes
        end_trouble(server)
        assert await producer.add(("t", 1)) == [0]
        assert await producer.end(is_commit=True) == 0
        assert await read(client) == [b"x"]

    run(act)


@TROUBLES
def test_an_idempotent_producer_is_not_sent_to_a_coordinator_that_it_does_not_have(trouble: Trouble) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        request = {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}
        trouble(server)
        assert (await client.call(INIT_PRODUCER_ID, 4, request))["error_code"] == COORDINATOR_LOADING
        end_trouble(server)
        assert (await client.call(INIT_PRODUCER_ID, 4, request))["error_code"] == 0

    run(act)


@TROUBLES
def test_a_publish_that_cannot_become_part_of_its_transaction_is_tried_again(trouble: Trouble) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client, partitions=2)
        assert (await producer.produce(b"x"))["error_code"] == 0
        trouble(server)
        refused = await producer.produce(b"y", partition=1)
        assert refused["error_code"] in {NOT_LEADER, NOT_ENOUGH_REPLICAS, STORAGE_ERROR}
        end_trouble(server)
        assert (await producer.produce(b"y", partition=1))["error_code"] == 0
        assert await producer.end(is_commit=True) == 0
        assert await read(client, partition=1) == [b"y"]

    run(act)


def test_a_publish_whose_coordinator_is_offline_is_tried_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client, partitions=2)
        assert (await producer.produce(b"x"))["error_code"] == 0
        for partition in server.server.broker.topics.topic("__transactions").partitions:
            partition.log.go_offline("its disk is broken")  # type: ignore[union-attr]
        for index in (0, 1):
            result = await producer.produce(b"y", partition=index, sequence=1 - index)
            assert result["error_code"] == NOT_ENOUGH_REPLICAS
            assert "its disk is broken" in result["error_message"]

    run(act)


def test_a_publish_during_the_end_of_the_transaction_before_is_tried_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await create_topic(client, "u")
        await producer.produce(b"x")
        partition = server.server.broker.topics.topic("t").partition(0)
        partition.log.go_offline("its disk is broken")
        other = TxnProducer(await server.client(), producer.id, producer.producer_id, producer.epoch)
        ending = asyncio.ensure_future(producer.end(is_commit=True, version=4))
        await pass_time(1)
        assert (await other.produce(b"y", topic="u"))["error_code"] == CONCURRENT
        server.server.broker.release()
        assert await ending == COORDINATOR_NOT_AVAILABLE

    run(act)


def test_a_topic_that_is_gone_by_then_keeps_no_other_out_of_the_transaction() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await create_topic(client, "u")
        broker = server.server.broker
        sections = [Section(broker.topics.topic(name).partition(0), producer.batch(b"x")) for name in ("t", "u")]
        assert await delete_topic(client, "t") == 0
        outcomes: list[Outcome] = []
        request = Publish(Acks.ALL, sections, outcomes.extend, producer.id)
        await publish_when_known(broker.transactions, INSIDE, request, adds_partitions=True)
        assert await producer.end(is_commit=True) == 0
        assert [type(each) for each in outcomes] == [UnknownTopic, Appended]
        assert await read(client, topic="u") == [b"x"]

    run(act)


def test_what_two_connections_publish_is_not_mixed_up_if_both_are_read_before_anything_else_happens() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        connections = server.server._kafka.open_connections
        producers = [TxnProducer(await server.client(), name) for name in ("a", "b")]
        near = [each for each in server.server._kafka.open_connections if each not in connections]
        sent = []
        for index, producer in enumerate(producers):
            assert await producer.init() == 0
            request = {
                **produce("t", producer.batch(b"of %d" % index), partition=index),
                "transactional_id": producer.id,
            }
            sent.append(producer.client.prepared(PRODUCE, 12, request))
        for connection, data in zip(near, sent, strict=True):
            connection.get_buffer(-1)[: len(data)] = data
            connection.buffer_updated(len(data))
        for index, producer in enumerate(producers):
            assert produced(await producer.client.reply())["error_code"] == 0
            assert await producer.end(is_commit=True) == 0
            assert await read(client, partition=index) == [b"of %d" % index]

    run(act)
