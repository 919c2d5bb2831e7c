"""Share consumers of a group that delivers messages of one key one after another."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.queues.admin import configure_queue
from goqueue.broker.queues.receive_and_settle import receive, settle
from goqueue.broker.queues.receiving import ReceiveTerms, Source
from goqueue.broker.queues.settling import Settlement
from goqueue.machines.queues.steps import HELD_MAX
from goqueue.machines.queues.values import AckType
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import read_header, write_header
from goqueue.testing.clock import START_MS
from tests.protocols.kafka.api_kit import pass_time, run
from tests.protocols.kafka.raw import PRODUCE, RawClient
from tests.protocols.kafka.requests import create_topic, delete_records, produce, produced
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import ACCEPT, ShareMember, Where, ack_errors, parts, publish, taken


async def _ordered_topic(server: SimServer, client: RawClient) -> Where:
    await configure_queue(server.server.broker.queues, INSIDE, "g", lambda _: QueueSettings(ordering=Ordering.KEY))
    topic_id: UUID = (await create_topic(client, "t"))["topic_id"]
    return topic_id, 0


def test_one_message_of_each_key_comes_of_a_batch_and_all_without_one() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _ordered_topic(server, client)
        keyed = [("a1", b"a"), ("n1", None), ("a2", b"a"), ("b1", b"b"), ("n2", None)]
        batch = build_batch([NewRecord(START_MS, key, value.encode()) for value, key in keyed])
        assert produced(await client.call(PRODUCE, 9, produce("t", batch)))["error_code"] == 0
        assert await ShareMember(client).take(where, max_records=1) == ["a1", "n1", "b1", "n2"]

    run(act)


def test_a_waiting_fetch_hears_that_a_key_is_free_behind_as_many_messages_as_are_held() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _ordered_topic(server, client)
        busy, waiting = ShareMember(client), ShareMember(await server.client(), "waiting")
        x, _, y = [await publish(client, "t", f"{key}1", key=key.encode()) for key in "xky"]
        await publish(client, "t", *["held"] * HELD_MAX, key=b"k")
        await publish(client, "t", "x2", key=b"x")
        assert await busy.take(where, max_records=HELD_MAX * 2, max_bytes=2**25) == ["x1", "k1", "y1"]
        waiting.send_fetch(where, max_wait=60_000)
        await pass_time(1)
        began = server.simulation.clock.monotonic()
        assert ack_errors(await busy.acknowledge({where: [(y, y, [ACCEPT])]})) == {where: 0}
        assert ack_errors(await busy.acknowledge({where: [(x, x, [ACCEPT])]})) == {where: 0}
        assert taken(await waiting.reply()) == ["x2"]
        assert server.simulation.clock.monotonic() - began < 1

    run(act)


@pytest.mark.parametrize("is_share_consumer", [True, False])
@pytest.mark.parametrize("is_nacked", [True, False])
def test_a_message_that_is_gone_from_the_log_keeps_the_next_of_its_key_no_longer(
    is_share_consumer: bool, is_nacked: bool
) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        where = await _ordered_topic(server, client)
        await publish(client, "t", "first", "second", key=b"k")
        (first,) = (await receive(broker.queues, INSIDE, ReceiveTerms(Source("g", ("t",)), "ann", limit=10))).received
        assert len(first.records) == 1
        if is_nacked:
            await settle(broker.queues, INSIDE, first.receipts, Settlement(AckType.NACK, delay_ms=3_600_000))
        await delete_records(client, "t", 1)
        if is_share_consumer:
            assert await ShareMember(client).take(where) == ["second"]
        else:
            (second,) = (await receive(broker.queues, INSIDE, ReceiveTerms(Source("g", ("t",)), "bob"))).received
            assert [record.value for record in second.records] == [b"second"]

    run(act)


def test_damage_behind_messages_that_wait_for_their_key_is_not_told_before_they_have_come() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _ordered_topic(server, client)
        await publish(client, "t", *["held"] * (HELD_MAX + 1), key=b"k")
        busy = ShareMember(client)
        assert await busy.take(where, max_records=HELD_MAX * 2, max_bytes=2**25) == ["held"]
        await publish(client, "t", "behind", key=b"k")
        batch = build_batch([NewRecord(START_MS, None, b"damaged" * 50)])
        write_header(batch, read_header(batch)._replace(record_count=20, last_offset_delta=19))
        assert produced(await client.call(PRODUCE, 9, produce("t", batch)))["error_code"] == 0
        reply = await ShareMember(await server.client(), "other").fetch(where)
        assert {part["error_code"] for part in parts(reply).values()} <= {0}

    run(act)
