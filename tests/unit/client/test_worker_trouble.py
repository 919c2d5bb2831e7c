"""Workers in trouble: handlers that raise what is no `Exception` or will not end, and proxies that answer instead."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from typing_extensions import override

from goqueue.client import (
    AsyncClient,
    Client,
    QueueMessage,
    RequestFailed,
    WorkCut,
    WorkFailed,
    WorkWithheld,
    queues,
    topics,
    worker_crew,
)
from goqueue.testing.broker import Broker
from tests.unit.client.worker_kit import (
    GROUP,
    TOPIC,
    Gate,
    Handling,
    Kind,
    depth,
    eventually,
    hired,
    publish,
    receive,
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running, Client(running.http) as client:
        client.send(topics.create(TOPIC, partitions=1))
        yield running


class Panic(BaseException):
    """What extensions raise that are written in other languages."""


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("error", [Panic("at the disco"), GeneratorExit()], ids=["panic", "generator exit"])
def test_a_worker_outlives_whatever_a_handler_raises(broker: Broker, kind: Kind, error: BaseException) -> None:
    def act(message: QueueMessage) -> None:
        if message.value == b"bad":
            raise error

    publish(broker, ["bad"])
    with hired(kind, broker.http, Handling(act)) as worker:
        eventually(lambda: worker.stats.retried == 1, "it is tried again")
        publish(broker, ["good"])
        eventually(lambda: worker.stats.done == 1, "others are done")
        assert worker.is_running
    assert worker.failure is None
    assert type(error).__name__ in worker.sink.of(WorkFailed)[0].error


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_worker_says_once_why_it_gets_nothing(broker: Broker, kind: Kind) -> None:
    def reasons() -> list[str]:
        return [event.reason for event in worker.sink.of(WorkWithheld)]

    with Client(broker.http) as client:
        client.send(queues.alter(GROUP))
        client.send(queues.pause(GROUP, "the database moves"))
        publish(broker, ["order"])
        with hired(kind, broker.http, Handling(), wait_s=0.1) as worker:
            eventually(lambda: reasons() == ["the group is paused: the database moves"], "it says why")
            client.send(queues.pause(GROUP, "the bank is closed"))
            eventually(lambda: len(reasons()) == 2, "it says that the reason is another one")
            assert reasons()[1] == "the group is paused: the bank is closed"
            client.send(queues.resume(GROUP))
            eventually(lambda: worker.stats.done == 1, "it works again")
        assert len(reasons()) == 2


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_handler_that_wants_the_program_to_end_has_its_worker_drain(broker: Broker, error: BaseException) -> None:
    gate = Gate()

    def act(message: QueueMessage) -> Gate | None:
        if message.value == b"last":
            raise error
        return gate

    handling = Handling(act)
    publish(broker, ["slow"])
    with hired("async", broker.http, handling) as worker:
        eventually(lambda: worker.stats.running == 1, "one runs")
        publish(broker, ["last"])
        eventually(lambda: worker.stats.retried == 1, "the other one is tried again")
        assert worker.is_running
        gate.open()
        worker.join()
    assert worker.failure is error
    assert worker.stats.done == 1
    assert handling.cancelled == []


def test_a_worker_that_is_cancelled_begins_nothing_more(broker: Broker) -> None:
    begun: list[QueueMessage] = []

    async def handle(message: QueueMessage) -> None:
        begun.append(message)
        if message.value == b"slow":
            await asyncio.Event().wait()

    async def main() -> None:
        async with AsyncClient(broker.http) as client:
            worker = client.worker(GROUP, TOPIC, handle, concurrency=1, visibility_s=600)
            running = asyncio.create_task(worker.run())
            await asyncio.to_thread(eventually, lambda: worker.stats.waiting == 2, "others wait for the slow one")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    publish(broker, ["quick"] * 5 + ["slow", "never", "never"])
    asyncio.run(main())
    assert b"never" not in [each.value for each in begun]


class Stubborn(Handling):
    """A handler that goes on when it is cancelled, until its gate is opened."""

    @override
    async def handle_async(self, message: QueueMessage) -> None:
        while True:
            try:
                await super().handle_async(message)
            except asyncio.CancelledError:
                continue
            return


def test_a_handler_that_goes_on_when_cancelled_keeps_its_lease_and_is_heard(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_crew, "_LAST_WORDS_S", 0.1)
    gate = Gate()
    publish(broker, ["first"])
    with hired("async", broker.http, Stubborn(lambda _: gate), drain_s=0, visibility_s=3) as worker:
        eventually(lambda: worker.stats.running == 1, "it runs")
        worker.stop()
        eventually(lambda: worker.sink.of(WorkCut), "it is cut short")
        before = worker.stats.renewed
        eventually(lambda: worker.stats.renewed > before + 1, "its lease is renewed for longer than last words take")
        assert receive(broker) == []
        gate.open()
        worker.join()
    assert worker.stats.done == 1
    assert depth(broker) == 0


@contextmanager
def proxy(reply: bytes) -> Iterator[str]:
    """Run a server that answers everything in the same way; return its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(64 * 1024)
                        connection.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_worker_gets_messages_of_the_topics_that_are_there_and_tells_once_of_those_that_are_not(
    broker: Broker, kind: Kind
) -> None:
    handling = Handling()
    publish(broker, ["first"])
    with hired(kind, broker.http, handling, topic=[TOPIC, "misspelt"], wait_s=0.2) as worker:
        eventually(lambda: worker.stats.done == 1, "it is done")
        eventually(lambda: worker.stats.failed_requests >= 3, "it has asked again and again")
        publish(broker, ["second"])
        eventually(lambda: worker.stats.done == 2, "the next one is done")
        asked = worker.stats.failed_requests
        eventually(lambda: worker.stats.failed_requests > asked, "it goes on asking")
        (told,) = worker.sink.of(RequestFailed)
        assert str(told.error) == "there is no topic 'misspelt'"


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("status", "media_type", "body"),
    [
        (400, "text/html", "<html>bad request</html>"),
        (403, "text/plain", "no"),
        (409, "application/json", '{"error": "conflict"}'),
        (413, "text/plain", "too large"),
    ],
)
def test_a_refusal_that_is_not_the_brokers_is_not_the_end(kind: Kind, status: int, media_type: str, body: str) -> None:
    head = f"HTTP/1.1 {status} No\r\nconnection: close\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}"
    with (
        proxy(f"{head}\r\n\r\n{body}".encode()) as address,
        hired(kind, address, Handling(), ordering="key") as worker,
    ):
        eventually(lambda: len(worker.sink.of(RequestFailed)) >= 3, "it asks again")
        assert worker.is_running
    assert worker.failure is None
