"""ShareFetch and ShareAcknowledge: sessions, leases and acks, frame by frame."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.queues.admin import configure_queue
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers
from goqueue.testing.clock import START_MS
from tests.protocols.kafka.api_kit import INVALID_REQUEST, UNKNOWN_ID, UNKNOWN_TOPIC, pass_time, run
from tests.protocols.kafka.raw import FETCH, PRODUCE, RawClient
from tests.protocols.kafka.requests import create_topic, delete_topic, fetch, fetched, produce
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import (
    ACCEPT,
    FINAL,
    INVALID_RECORD_STATE,
    INVALID_SESSION_EPOCH,
    REJECT,
    RELEASE,
    RENEW,
    SESSION_NOT_FOUND,
    ShareMember,
    Where,
    ack_errors,
    acquired,
    parts,
    publish,
    taken,
)

ACK_CODE = "acknowledge_error_code"


async def _topic(client: RawClient, name: str = "t", **settings: str) -> Where:
    made = await create_topic(client, name, config=settings)
    assert made["error_code"] == 0
    topic_id: UUID = made["topic_id"]
    return topic_id, 0


def test_a_session_gets_stored_batches_as_they_are_and_which_messages_are_its_own() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        await publish(client, "t", "c")
        stored = fetched(await client.call(FETCH, 12, fetch("t", 0)))["records"]
        reply = await ShareMember(client).fetch(where)
        assert (reply["error_code"], reply["acquisition_lock_timeout"]) == (0, 30_000)
        assert taken(reply) == ["a", "b", "c"]
        assert acquired(reply) == [(0, 2, 1)]
        assert parts(reply)[where]["records"] == stored

    run(act)


def test_what_one_session_holds_no_other_gets() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", *"abcd")
        one, two = ShareMember(client, "one"), ShareMember(client, "two")
        strict = {"version": 2, "share_acquire_mode": 1}
        assert await one.take(where, max_records=2, **strict) == ["a", "b"]
        assert await two.take(where, max_records=2, **strict) == ["c", "d"]
        assert await two.take() == []
        other = ShareMember(client, group="another")
        assert await other.take(where) == ["a", "b", "c", "d"]

    run(act)


def test_the_number_of_messages_is_rounded_up_to_whole_batches_unless_it_is_strict() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", *"abc")
        await publish(client, "t", *"de")
        member = ShareMember(client)
        assert await member.take(where, max_records=1) == ["a", "b", "c"]
        assert await member.take(where, max_records=1, version=2, share_acquire_mode=1) == ["d"]
        assert await member.take(where, max_records=0) == []
        assert await member.take(where) == ["e"]

    run(act)


def test_a_batch_is_parted_where_the_group_has_no_more_in_flight() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await configure_queue(server.server.broker.queues, INSIDE, "g", lambda _: QueueSettings(in_flight_max=3))
        where = await _topic(client)
        await publish(client, "t", *"abcdefgh")
        member = ShareMember(client)
        assert await member.take(where, max_records=1) == ["a", "b", "c"]
        assert await member.take(acks={where: [(0, 2, [ACCEPT])]}, max_records=1) == ["d", "e", "f"]

    run(act)


def test_replies_stay_within_bytes_but_for_one_batch() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        for letter in "abc":
            await publish(client, "t", letter * 1000)
        member = ShareMember(client)
        assert [len(await member.take(where, max_bytes=size)) for size in (1, 1500, 5000)] == [1, 1, 1]
        # What is given back lies in batches as well.
        await member.acknowledge({where: [(0, 2, [RELEASE])]})
        assert [len(await member.take(max_bytes=size)) for size in (1, 2500)] == [1, 2]

    run(act)


def test_ranges_are_cut_where_deliveries_differ_and_at_the_size_that_was_asked_for() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", *"abcde")
        member = ShareMember(client)
        assert acquired(await member.fetch(where, batch_size=2)) == [(0, 1, 1), (2, 3, 1), (4, 4, 1)]
        await member.acknowledge({where: [(0, 4, [ACCEPT, RELEASE, RELEASE, ACCEPT, RELEASE])]})
        await publish(client, "t", "f")
        assert acquired(await member.fetch()) == [(1, 2, 2), (4, 4, 2), (5, 5, 1)]

    run(act)


@pytest.mark.parametrize("is_piggybacked", [True, False])
def test_accepted_messages_are_done_and_released_ones_come_again(is_piggybacked: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", *"abcd")
        member = ShareMember(client)
        await member.fetch(where)
        acks = {where: [(0, 1, [ACCEPT]), (2, 3, [RELEASE, ACCEPT])]}
        if is_piggybacked:
            reply = await member.fetch(acks=acks)
            assert ack_errors(reply, ACK_CODE) == {where: 0}
        else:
            assert ack_errors(await member.acknowledge(acks)) == {where: 0}
            reply = await member.fetch()
        assert (taken(reply), acquired(reply)) == (["c"], [(2, 2, 2)])
        assert await member.close({where: [(2, 2, [ACCEPT])]}) == 0
        assert await ShareMember(client).take(where) == []

    run(act)


def test_a_rejected_message_becomes_a_dead_letter_with_its_consumer() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "bad", "good")
        member = ShareMember(client)
        await member.fetch(where)
        await member.acknowledge({where: [(0, 1, [REJECT, ACCEPT])]})
        await pass_time(1)
        letters = server.server.broker.topics.topic("t.dlq")
        triage = ShareMember(client, group="triage")
        assert await triage.take((letters.topic.id, 0)) == ["bad"]
        assert await member.take() == []

    run(act)


def test_a_message_that_is_released_too_often_becomes_a_dead_letter() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "again")
        member = ShareMember(client)
        await member.fetch(where)
        for count in range(2, 5):
            assert acquired(await member.fetch(acks={where: [(0, 0, [RELEASE])]})) == [(0, 0, count)]
        assert acquired(await member.fetch(acks={where: [(0, 0, [RELEASE])]})) == []
        await pass_time(1)
        assert "t.dlq" in server.server.broker.topics.by_name

    run(act)


def test_a_lease_that_ends_goes_to_another_and_its_ack_is_refused() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        slow, quick = ShareMember(client, "slow"), ShareMember(await server.client(), "quick")
        await slow.fetch(where)
        quick.send_fetch(where, max_wait=60_000)
        await pass_time(30.1)
        assert acquired(await quick.reply()) == [(0, 0, 2)]
        assert ack_errors(await slow.acknowledge({where: [(0, 0, [ACCEPT])]})) == {where: INVALID_RECORD_STATE}
        assert ack_errors(await quick.acknowledge({where: [(0, 0, [ACCEPT])]})) == {where: 0}

    run(act)


def test_a_renewed_lease_lasts_longer() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        member, other = ShareMember(client), ShareMember(client, "other")
        await member.fetch(where)
        await other.fetch(where)
        await pass_time(20)
        renewal = {where: [(0, 0, [RENEW])]}
        reply = await member.fetch(acks=renewal, version=2, is_renew_ack=True, max_records=0)
        assert (ack_errors(reply, ACK_CODE), acquired(reply)) == ({where: 0}, [])
        await pass_time(20)
        assert await other.take() == ["b"]
        reply = await member.acknowledge(renewal, version=2, is_renew_ack=True)
        assert (ack_errors(reply), reply["acquisition_lock_timeout"]) == ({where: 0}, 30_000)
        assert ack_errors(await member.acknowledge(renewal)) == {where: INVALID_REQUEST}

    run(act)


# -- sessions


def test_every_request_has_the_next_epoch_and_others_change_nothing() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        member = ShareMember(client)
        accepted = {where: [(0, 0, [ACCEPT])]}
        assert (await member.fetch(share_session_epoch=1))["error_code"] == SESSION_NOT_FOUND
        assert (await member.acknowledge(accepted, share_session_epoch=FINAL))["error_code"] == SESSION_NOT_FOUND
        assert await member.take(where) == ["a"]
        for epoch in (2, 77, -5):
            assert (await member.fetch(acks=accepted, share_session_epoch=epoch))["error_code"] == INVALID_SESSION_EPOCH
            refused = await member.acknowledge(accepted, share_session_epoch=epoch)
            assert refused["error_code"] == INVALID_SESSION_EPOCH
        assert (await member.acknowledge(accepted, share_session_epoch=0))["error_code"] == INVALID_SESSION_EPOCH
        assert ack_errors(await member.acknowledge(accepted)) == {where: 0}

    run(act)


def test_a_new_session_releases_what_the_one_before_held() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        member = ShareMember(client)
        await member.fetch(where)
        member.session_epoch = 0
        assert acquired(await member.fetch(where)) == [(0, 0, 2)]
        refused = await member.fetch(where, acks={where: [(0, 0, [ACCEPT])]}, share_session_epoch=0)
        assert refused["error_code"] == INVALID_REQUEST

    run(act)


@pytest.mark.parametrize("is_fetch", [True, False])
def test_the_last_request_settles_and_releases_the_rest(is_fetch: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        member = ShareMember(client)
        await member.fetch(where)
        acks = {where: [(0, 0, [ACCEPT])]}
        if is_fetch:
            reply = await member.fetch(acks=acks, share_session_epoch=FINAL, max_wait=60_000)
            assert (ack_errors(reply, ACK_CODE), acquired(reply)) == ({where: 0}, [])
        else:
            assert await member.close(acks) == 0
        assert (await member.fetch())["error_code"] == SESSION_NOT_FOUND
        assert acquired(await ShareMember(client, "other").fetch(where)) == [(1, 1, 2)]

    run(act)


def test_partitions_are_added_to_a_session_and_forgotten() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where, other = await _topic(client), await _topic(client, "other")
        member = ShareMember(client)
        await member.fetch(where)
        await publish(client, "other", "x")
        assert await member.take() == []
        assert await member.take(other) == ["x"]
        await publish(client, "t", "a")
        await publish(client, "other", "y")
        assert await member.take(forgotten=[other]) == ["a"]
        # Whoever looks nowhere any more can still say what became of its messages.
        assert ack_errors(await member.acknowledge({other: [(0, 0, [ACCEPT])]})) == {other: 0}

    run(act)


def test_a_silent_member_loses_its_leases_at_once() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        member, other = ShareMember(client), ShareMember(client, "other")
        await member.heartbeat()
        await pass_time(40)
        await member.fetch(where)
        await pass_time(5.1)
        assert acquired(await other.fetch(where)) == [(0, 0, 2)]
        assert (await member.fetch())["error_code"] == SESSION_NOT_FOUND

    run(act)


def test_a_connection_that_is_gone_takes_its_session_along_after_a_while() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        gone, back = ShareMember(await server.client(), "gone"), ShareMember(await server.client(), "back")
        await gone.fetch(where)
        await publish(client, "t", "b")
        await back.fetch(where)
        gone.client.close()
        back.client.close()
        await pass_time(1)
        back.client = await server.client()
        assert await back.take() == []
        other = ShareMember(client, "other")
        assert await other.take(where) == []
        await pass_time(10)
        assert await other.take() == ["a"]
        assert ack_errors(await back.acknowledge({where: [(1, 1, [ACCEPT])]})) == {where: 0}

    run(act)


def test_a_member_that_is_heard_keeps_its_session_without_a_connection() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        member = ShareMember(await server.client())
        await member.fetch(where)
        member.client.close()
        member.client = client
        await member.heartbeat()
        other = ShareMember(client, "other")
        for _ in range(5):
            await pass_time(5)
            await member.heartbeat()
            assert await other.take(where, share_session_epoch=0) == []
        assert ack_errors(await member.acknowledge({where: [(0, 0, [ACCEPT])]})) == {where: 0}

    run(act)


def test_a_member_that_is_gone_leaves_its_partitions_to_others_soon() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=2)
        gone, other = ShareMember(await server.client(), "gone"), ShareMember(client, "other")
        await gone.heartbeat()
        await gone.fetch()
        await other.heartbeat()
        gone.client.close()
        await pass_time(10.2)
        (told,) = (await other.heartbeat())["assignment"]["topic_partitions"]
        assert told["partitions"] == [0, 1]

    run(act)


def test_a_session_whose_client_leaves_before_it_is_open_does_not_stay() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a")
        for number in range(20):
            gone = ShareMember(await server.client(), f"gone {number}", group=f"g{number}")
            gone.send_fetch(where)
            await pass_time(0.0005 * number)
            gone.client.transport.abort()
        await pass_time(12)
        assert server.server.broker.share_groups.sessions == {}

    run(act)


def test_a_fetch_whose_client_is_gone_leases_nothing() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        gone = ShareMember(await server.client(), "gone")
        gone.send_fetch(where, max_wait=60_000)
        await pass_time(0.1)
        gone.client.close()
        await pass_time(0.1)
        await publish(client, "t", "a")
        assert acquired(await ShareMember(client).fetch(where)) == [(0, 0, 1)]

    run(act)


def test_leases_of_a_stopped_broker_are_released_when_their_member_comes_back() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", *"abc")
        member = ShareMember(client)
        await member.fetch(where)
        await member.acknowledge({where: [(1, 1, [ACCEPT])]})
        await server.stop()
        await server.start()
        member.client = await server.client()
        assert (await member.fetch())["error_code"] == SESSION_NOT_FOUND
        member.session_epoch = 0
        assert acquired(await member.fetch(where)) == [(0, 0, 2), (2, 2, 2)]

    run(act)


# -- waiting


def test_a_fetch_waits_for_a_message_and_wakes_at_once() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        member = ShareMember(await server.client())
        member.send_fetch(where, max_wait=60_000)
        await pass_time(10)
        began = server.simulation.clock.monotonic()
        await publish(client, "t", "a")
        assert taken(await member.reply()) == ["a"]
        assert server.simulation.clock.monotonic() - began < 1

    run(act)


def test_a_fetch_waits_for_enough_bytes_but_not_longer_than_it_says() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        member = ShareMember(await server.client())
        member.send_fetch(where, max_wait=10_000, min_bytes=3000)
        for letter in "abc":
            await publish(client, "t", letter * 1000)
        assert len(taken(await member.reply())) == 3
        await publish(client, "t", "d")
        began = server.simulation.clock.monotonic()
        assert await member.take(max_wait=5_000, min_bytes=3000) == ["d"]
        assert 4.9 < server.simulation.clock.monotonic() - began < 5.5
        assert await member.take(max_wait=100) == []

    run(act)


def test_a_full_member_waits_until_it_has_settled_something() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", *map(str, range(1500)))
        member = ShareMember(client)
        assert acquired(await member.fetch(where, max_records=2000, max_bytes=2**25)) == [(0, 499, 1), (500, 999, 1)]
        assert await member.take() == []
        assert acquired(await member.fetch(acks={where: [(0, 1, [ACCEPT])]})) == [(1000, 1001, 1)]

    run(act)


# -- what is there to be got


def test_messages_of_aborted_transactions_and_markers_are_never_acquired() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        init = {"transactional_id": "x", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        made = await client.call(22, 4, init)
        who = {"transactional_id": "x", "producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}
        member = ShareMember(client)
        await member.fetch(where)
        for sequence, (value, is_commit) in enumerate((("aborted", False), ("committed", True))):
            await client.call(24, 3, {**_v3(who), "v3_and_below_topics": [{"name": "t", "partitions": [0]}]})
            batch = build_batch(
                [NewRecord(START_MS, None, value.encode())],
                producer_id=made["producer_id"],
                producer_epoch=made["producer_epoch"],
                base_sequence=sequence,
                is_transactional=True,
            )
            await client.call(PRODUCE, 9, {**produce("t", batch), "transactional_id": "x"})
            assert await member.take() == []
            await client.call(26, 3, {**who, "committed": is_commit})
        reply = await member.fetch()
        assert (taken(reply), acquired(reply)) == (["committed"], [(2, 2, 1)])
        assert len(list(headers(parts(reply)[where]["records"]))) == 1

    run(act)


def _v3(who: dict[str, object]) -> dict[str, object]:
    return {f"v3_and_below_{name}": value for name, value in who.items()}


def test_messages_of_one_key_come_one_after_another_if_the_group_wants_that() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        broker = server.server.broker
        await configure_queue(broker.queues, INSIDE, "g", lambda _: QueueSettings(ordering=Ordering.KEY))
        where = await _topic(client)
        await publish(client, "t", "a1", "a2", key=b"a")
        await publish(client, "t", "b1", key=b"b")
        member = ShareMember(client)
        assert await member.take(where) == ["a1", "b1"]
        assert await member.take() == []
        assert await member.take(acks={where: [(0, 0, [ACCEPT])]}) == ["a2"]

    run(act)


def test_a_partition_that_is_not_there_is_told_and_keeps_no_other_back() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where, gone = await _topic(client), await _topic(client, "gone")
        await publish(client, "t", "a")
        nowhere, beyond = (uuid4(), 0), (where[0], 7)
        member = ShareMember(client)
        reply = await member.fetch(where, gone, nowhere, beyond)
        codes = ack_errors(reply)
        assert codes == {where: 0, nowhere: UNKNOWN_ID, beyond: UNKNOWN_TOPIC}
        assert acquired(reply) == [(0, 0, 1)]
        await delete_topic(client, "gone")
        assert ack_errors(await member.fetch()) == {gone: UNKNOWN_ID}
        assert ack_errors(await member.acknowledge({nowhere: [(0, 0, [ACCEPT])]})) == {nowhere: UNKNOWN_ID}

    run(act)
