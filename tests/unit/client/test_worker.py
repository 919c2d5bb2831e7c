"""Workers of both clients: what becomes of messages, of their leases, and of a worker that is told to stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
from typing_extensions import override

from goqueue.client import (
    AsyncClient,
    Client,
    FateUnknown,
    LeaseLost,
    QueueMessage,
    Reject,
    RequestFailed,
    Retry,
    WorkCut,
    WorkFailed,
    WorkOverran,
    WorkRetried,
    groups,
    queues,
    topics,
)
from goqueue.errors import Conflict, InconsistentProtocol, Invalid
from goqueue.testing.broker import Broker
from tests.unit.client.lossy_relay import lossy_relay
from tests.unit.client.worker_kit import (
    GROUP,
    TOPIC,
    Gate,
    Handling,
    Kind,
    dead_letters,
    depth,
    eventually,
    hired,
    publish,
    receive,
)

pytestmark = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running, Client(running.http) as client:
        client.send(topics.create(TOPIC, partitions=1))
        yield running


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_messages_whose_handler_returns_are_done(broker: Broker, kind: Kind) -> None:
    handling = Handling()
    publish(broker, [str(number) for number in range(300)])
    with hired(kind, broker.http, handling) as worker:
        eventually(lambda: worker.stats.done == 300, "all are done")
    assert sorted(handling.values) == sorted(b"%d" % number for number in range(300))
    assert depth(broker) == 0
    assert worker.stats.received == 300


def test_a_failed_message_is_tried_again_after_the_backoff(broker: Broker, kind: Kind) -> None:
    def act(message: QueueMessage) -> None:
        if message.delivery_count == 1:
            raise ValueError("no such bank")

    handling = Handling(act)
    publish(broker, ["first"])
    with hired(kind, broker.http, handling) as worker:
        eventually(lambda: worker.stats.retried == 1, "it has failed")
        broker.advance(2)
        eventually(lambda: worker.stats.done == 1, "it is done")
    assert [message.delivery_count for message in handling.begun] == [1, 2]
    assert [event.error for event in worker.sink.of(WorkFailed)] == ["ValueError: no such bank"]


def test_the_error_of_a_handler_travels_with_the_dead_letter(broker: Broker, kind: Kind) -> None:
    def act(_: QueueMessage) -> None:
        raise ValueError("no such bank")

    with Client(broker.http) as client:
        client.send(queues.alter(GROUP, retries=0))
    publish(broker, ["first"])
    with hired(kind, broker.http, Handling(act)):
        (letter,) = dead_letters(broker, 1)
    assert (letter["reason"], letter["error"]) == (b"max_retries_exceeded", b"ValueError: no such bank")


def test_a_handler_may_say_when_to_try_again(broker: Broker, kind: Kind) -> None:
    def act(message: QueueMessage) -> None:
        if message.delivery_count == 1:
            raise Retry("the bank is closed", delay_s=3600)

    handling = Handling(act)
    publish(broker, ["first"])
    with hired(kind, broker.http, handling) as worker:
        eventually(lambda: worker.stats.retried == 1, "it has failed")
        broker.advance(3590)
        assert len(handling.begun) == 1
        broker.advance(11)
        eventually(lambda: worker.stats.done == 1, "it is done")
    assert worker.sink.of(WorkFailed) == []
    (event,) = worker.sink.of(WorkRetried)
    assert event.describe() == f"WorkRetried place={TOPIC}-0@0#1 after=3600 s reason=the bank is closed"


def test_a_rejected_message_becomes_a_dead_letter_at_once(broker: Broker, kind: Kind) -> None:
    def act(_: QueueMessage) -> None:
        raise Reject("no such customer")

    publish(broker, ["first"])
    with hired(kind, broker.http, Handling(act)) as worker:
        (letter,) = dead_letters(broker, 1)
        eventually(lambda: worker.stats.rejected == 1, "it is told")
    assert (letter["reason"], letter["error"]) == (b"rejected", b"no such customer")


class Mute(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("caf\udce9"), b"ValueError: caf\\udce9"),
        (ValueError("x" * 10_000), b"x [... 6,012 characters ...] " + b"x" * 2000),
        (Reject(ValueError("not a text")), b"not a text"),
        (Mute(), b"<exception str() failed>"),
    ],
    ids=["no text", "long", "an error as reason", "mute"],
)
def test_whatever_a_handler_raises_can_be_said(broker: Broker, kind: Kind, error: Exception, said: bytes) -> None:
    def act(_: QueueMessage) -> None:
        raise error

    with Client(broker.http) as client:
        client.send(queues.alter(GROUP, retries=0))
    publish(broker, ["first"])
    with hired(kind, broker.http, Handling(act)):
        (letter,) = dead_letters(broker, 1)
    assert (letter["error"] or b"").endswith(said)


@pytest.mark.parametrize("delay_s", [-1.0, float("inf"), float("nan"), 604_800.1, 1e9])
def test_a_delay_that_is_none_is_a_failure_like_any_other(broker: Broker, kind: Kind, delay_s: float) -> None:
    def act(_: QueueMessage) -> None:
        raise Retry(delay_s=delay_s)

    publish(broker, ["first"])
    with hired(kind, broker.http, Handling(act)) as worker:
        eventually(lambda: worker.stats.retried == 1, "it has failed")
    assert "delay_s is" in worker.sink.of(WorkFailed)[0].error


def test_a_handler_that_waits_for_nobody_is_refused_or_fails(broker: Broker, kind: Kind) -> None:
    handling = Handling()
    if kind == "sync":
        with Client(broker.http) as client, pytest.raises(Invalid, match="async function"):
            client.worker(GROUP, TOPIC, handling.handle_async)
    publish(broker, ["first"])
    plain, waiting = handling.handle, handling.handle_async

    def looks_plain(message: QueueMessage) -> object:
        return waiting(message)

    # Each in the place of the other.
    setattr(handling, "handle" if kind == "sync" else "handle_async", looks_plain if kind == "sync" else plain)
    with hired(kind, broker.http, handling) as worker:
        eventually(lambda: worker.stats.retried == 1, "it is not taken for done")
    assert "TypeError" in worker.sink.of(WorkFailed)[0].error


def test_a_lease_is_renewed_while_its_handler_runs(broker: Broker, kind: Kind) -> None:
    gate = Gate()
    handling = Handling(lambda _: gate)
    publish(broker, ["first"])
    with hired(kind, broker.http, handling, visibility_s=0.9) as worker:
        # Each renewal comes a third of the lease after the one before.
        eventually(lambda: worker.stats.renewed >= 6, "the lease lasts twice as long as it would")
        assert receive(broker) == []
        gate.open()
        eventually(lambda: worker.stats.done == 1, "it is done")
    assert len(handling.begun) == 1
    assert worker.stats.lost == 0


def test_a_handler_that_takes_too_long_loses_its_message(broker: Broker, kind: Kind) -> None:
    gate = Gate()
    handling = Handling(lambda _: gate)
    publish(broker, ["first"])
    with Client(broker.http) as client:
        client.send(queues.alter(GROUP, backoff="1h", backoff_max="1h"))
    with hired(kind, broker.http, handling, visibility_s=0.6, lease_max_s=1.2, concurrency=1) as worker:
        eventually(lambda: worker.stats.overrun == 1, "it is given up")
        (event,) = worker.sink.of(WorkOverran)
        assert event.seconds >= 1.2
        if kind == "async":
            eventually(lambda: worker.stats.retried == 1, "it was cancelled, and its message is to be tried again")
            assert len(handling.cancelled) == 1
            return
        with Client(broker.http) as client:
            (theirs,) = client.send(queues.receive(GROUP, TOPIC, wait_s=10, consumer="other")).messages
            gate.open()
            eventually(lambda: worker.stats.lost == 1, "its late success counts for nothing")
            assert client.send(queues.ack(theirs)) == [queues.SettledMessage("done", None)]


def test_a_lost_lease_never_settles_the_delivery_of_somebody_else(broker: Broker, kind: Kind) -> None:
    gate = Gate()
    publish(broker, ["first"])
    with hired(kind, broker.http, Handling(lambda _: gate), visibility_s=30, concurrency=1) as worker:
        eventually(lambda: worker.stats.running == 1, "it runs")
        broker.advance(31)
        (theirs,) = receive(broker)
        gate.open()
        eventually(lambda: worker.stats.lost == 1, "the ack is refused")
        assert worker.sink.of(LeaseLost)[0].act == "ack"
        with Client(broker.http) as client:
            assert client.send(queues.describe(GROUP)).in_flight == 1
            assert client.send(queues.ack(theirs)) == [queues.SettledMessage("done", None)]


def test_a_worker_that_stops_gives_back_what_it_has_not_begun(broker: Broker, kind: Kind) -> None:
    gate = Gate()
    handling = Handling(lambda message: gate if message.value == b"slow" else None)
    publish(broker, ["quick"])
    # Nothing that happens now and then may be what does it.
    with hired(kind, broker.http, handling, concurrency=1, visibility_s=600) as worker:
        eventually(lambda: worker.stats.done == 1, "it is known to be quick")
        publish(broker, ["slow", "a", "b", "c"])
        eventually(lambda: worker.stats.waiting == 3, "some are held ahead")
        worker.stop()
        eventually(lambda: worker.stats.released == 3, "they are given back")
        assert [each.value for each in receive(broker, wait_s=20)] == [b"a", b"b", b"c"]
        assert worker.is_running
        gate.open()
        worker.join()
    assert worker.stats.done == 2
    assert handling.values == [b"quick", b"slow"]


def test_a_worker_waits_for_its_handlers_only_so_long(broker: Broker, kind: Kind) -> None:
    gate = Gate()
    handling = Handling(lambda _: gate)
    publish(broker, ["first"])
    with hired(kind, broker.http, handling, drain_s=0.1) as worker:
        eventually(lambda: worker.stats.running == 1, "it runs")
        worker.stop()
        eventually(lambda: worker.sink.of(WorkCut), "it is cut short")
        if kind == "async":
            # Its handler has ended: others get the message at once. A function in a thread cannot be ended.
            eventually(lambda: worker.stats.released == 1, "it is given back")
            assert [each.delivery_count for each in receive(broker)] == [2]
        else:
            worker.join()
            assert receive(broker) == []
            broker.advance(31)
            assert [each.delivery_count for each in receive(broker)] == [2]


def test_workers_share_without_overlap(broker: Broker, kind: Kind) -> None:
    shared = Handling()
    publish(broker, [str(number) for number in range(600)])
    with (
        hired(kind, broker.http, shared) as first,
        hired(kind, broker.http, shared) as second,
        hired(kind, broker.http, shared) as third,
    ):
        eventually(lambda: sum(each.stats.done for each in (first, second, third)) == 600, "all are done")
    assert sorted(shared.values) == sorted(b"%d" % number for number in range(600))
    assert {message.delivery_count for message in shared.begun} == {1}


def test_there_may_be_more_workers_than_partitions(broker: Broker, kind: Kind) -> None:
    gate = Gate()
    handlings = [Handling(lambda _: gate) for _ in range(3)]
    publish(broker, ["a", "b", "c"])
    with (
        hired(kind, broker.http, handlings[0], concurrency=1),
        hired(kind, broker.http, handlings[1], concurrency=1),
        hired(kind, broker.http, handlings[2], concurrency=1),
    ):
        eventually(lambda: all(len(each.begun) == 1 for each in handlings), "each has one")


def test_messages_of_one_key_are_handled_one_after_another(broker: Broker, kind: Kind) -> None:
    overlaps: list[bytes | None] = []

    def act(message: QueueMessage) -> Gate:
        begun = sum(each.key == message.key for each in handling.begun)
        if begun != sum(each.key == message.key for each in handling.ended) + 1:
            overlaps.append(message.key)
        gate = Gate()
        gate.open()
        return gate

    handling = Handling(act)
    for step in range(8):
        for key in "abcde":
            publish(broker, [str(step)], key=key)
    with hired(kind, broker.http, handling, ordering="key") as worker:
        eventually(lambda: worker.stats.done == 40, "all are done")
        with Client(broker.http) as client:
            assert client.send(queues.describe(GROUP)).settings["ordering"] == "key"
    for letter in (b"a", b"b", b"c", b"d", b"e"):
        assert [each.value for each in handling.begun if each.key == letter] == [b"%d" % step for step in range(8)]
    assert overlaps == []


def test_a_group_that_is_deleted_under_a_worker_keeps_its_order(broker: Broker, kind: Kind) -> None:
    gate = Gate()
    publish(broker, ["first"], key="a")
    with hired(kind, broker.http, Handling(lambda _: gate), ordering="key", concurrency=1) as worker:
        eventually(lambda: worker.stats.running == 1, "it has no time to ask for more")
        with Client(broker.http) as client:
            client.send(queues.delete(GROUP))
            gate.open()
            eventually(lambda: worker.stats.done == 1, "it has got the message again")
            assert client.send(queues.describe(GROUP)).settings["ordering"] == "key"


def test_a_worker_may_come_before_its_topic(broker: Broker, kind: Kind) -> None:
    handling = Handling()
    with hired(kind, broker.http, handling, topic="later", wait_s=0.2) as worker:
        eventually(lambda: worker.sink.of(RequestFailed), "it has asked in vain")
        with Client(broker.http) as client:
            client.send(topics.create("later", partitions=1))
        publish(broker, ["first"], topic="later")
        eventually(lambda: worker.stats.done == 1, "it is done")


def test_a_worker_outlives_its_broker(kind: Kind, free_port: int) -> None:
    handling = Handling()
    with Broker(http_port=free_port) as broker, Client(broker.http) as client:
        client.send(topics.create(TOPIC, partitions=1))
        with hired(kind, broker.http, handling) as worker:
            publish(broker, ["before"])
            eventually(lambda: worker.stats.done == 1, "it works")
            broker.stop()
            eventually(lambda: worker.sink.of(RequestFailed), "it has noticed")
            broker.start()
            publish(broker, ["after"])
            eventually(lambda: worker.stats.done == 2, "it works again")


def test_a_handler_may_end_while_the_broker_is_away(kind: Kind, free_port: int) -> None:
    gate = Gate()
    handling = Handling(lambda _: gate)
    with Broker(http_port=free_port) as broker, Client(broker.http) as client:
        client.send(topics.create(TOPIC, partitions=1))
        publish(broker, ["first"])
        with hired(kind, broker.http, handling) as worker:
            eventually(lambda: worker.stats.running == 1, "it runs")
            broker.stop()
            gate.open()
            eventually(lambda: any(each.act == "settle" for each in worker.sink.of(RequestFailed)), "it has tried")
            broker.start()
            eventually(lambda: worker.stats.done == 1, "its lease has outlived the broker")
    assert len(handling.begun) == 1


def test_an_ack_whose_answer_is_lost_is_sent_again_and_its_fate_told_as_unknown(broker: Broker, kind: Kind) -> None:
    handling = Handling()
    publish(broker, ["first"])
    with lossy_relay(broker.http) as relay:
        relay.doomed.append("/messages/ack")
        with hired(kind, relay.address, handling) as worker:
            eventually(lambda: worker.stats.unknown == 1, "the second ack finds nothing to do")
    assert [event.act for event in worker.sink.of(FateUnknown)] == ["ack"]
    assert depth(broker) == 0
    assert len(handling.begun) == 1


def test_a_worker_ends_if_its_group_can_never_be_a_queue(broker: Broker, kind: Kind) -> None:
    with Client(broker.http) as client:
        client.send(groups.join(GROUP, [TOPIC]))
    with hired(kind, broker.http, Handling()) as worker:
        eventually(lambda: not worker.is_running, "it ends")
    assert isinstance(worker.failure, InconsistentProtocol)


def test_a_worker_runs_once(broker: Broker, kind: Kind) -> None:
    async def run_twice() -> None:
        async with AsyncClient(broker.http) as client:
            worker = client.worker(GROUP, TOPIC, Handling().handle_async)
            worker.stop()
            await worker.run()
            await worker.run()

    if kind == "async":
        with pytest.raises(Conflict, match="has run already"):
            asyncio.run(run_twice())
        return
    with Client(broker.http) as client:
        worker = client.worker(GROUP, TOPIC, Handling().handle)
        worker.stop()
        worker.run()
        with pytest.raises(Conflict, match="has run already"):
            worker.run()
