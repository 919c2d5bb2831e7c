"""Workers of both clients, run beside a test: what their handlers saw, and gates at which handlers wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from goqueue.client import AsyncClient, AsyncWorker, Client, NewMessage, QueueMessage, Worker, messages, queues
from goqueue.testing.broker import Broker
from goqueue.testing.sink import RecordingSink

GROUP, TOPIC = "billing", "orders"
WAIT_S = 120.0

Kind = Literal["sync", "async"]


def eventually(fact: Callable[[], object], what: str) -> None:
    """Wait for a fact."""
    tick = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if fact():
            return
        tick.wait(0.01)
    raise AssertionError(f"in {WAIT_S:g} s it did not come true that {what}")


class Gate:
    """Handlers wait here until somebody opens it."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def wait(self) -> None:
        assert self._open.wait(WAIT_S)

    async def wait_async(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.wait)


class Handling:
    """A handler for both kinds: notes each message, then waits at a gate or raises as the test says."""

    def __init__(self, act: Callable[[QueueMessage], Gate | None] = lambda _: None) -> None:
        self.begun: list[QueueMessage] = []
        self.ended: list[QueueMessage] = []
        self.cancelled: list[QueueMessage] = []
        self._act = act
        self.gates: list[Gate] = []

    @property
    def values(self) -> list[bytes]:
        """What the messages said whose handling has begun."""
        return [message.value or b"" for message in self.begun]

    def handle(self, message: QueueMessage) -> None:
        if gate := self._begin(message):
            gate.wait()
        self.ended.append(message)

    async def handle_async(self, message: QueueMessage) -> None:
        if gate := self._begin(message):
            try:
                await gate.wait_async()
            except asyncio.CancelledError:
                self.cancelled.append(message)
                raise
        self.ended.append(message)

    def _begin(self, message: QueueMessage) -> Gate | None:
        self.begun.append(message)
        gate = self._act(message)
        if gate is not None:
            self.gates.append(gate)
        return gate


class Hired:
    """A worker that runs in a thread of its own."""

    def __init__(self, kind: Kind, server: str, handling: Handling, options: dict[str, Any]) -> None:
        self.sink = RecordingSink()
        self.failure: BaseException | None = None
        self._worker: Worker | AsyncWorker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        given = {"wait_s": 5.0, "sink": self.sink} | options
        self._thread = threading.Thread(target=self._run, args=(kind, server, handling, given), daemon=True)
        self._thread.start()
        eventually(lambda: self._worker or self.failure, "the worker runs")

    def _run(self, kind: Kind, server: str, handling: Handling, options: dict[str, Any]) -> None:
        group, topic = options.pop("group", GROUP), options.pop("topic", TOPIC)
        try:
            if kind == "sync":
                with Client(server) as client:
                    self._worker = client.worker(group, topic, handling.handle, **options)
                    self._worker.run()
            else:
                asyncio.run(self._run_async(server, group, topic, handling, options))
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failure = error

    async def _run_async(
        self, server: str, group: str, topic: str, handling: Handling, options: dict[str, Any]
    ) -> None:
        async with AsyncClient(server) as client:
            self._loop = asyncio.get_running_loop()
            self._worker = client.worker(group, topic, handling.handle_async, **options)
            await self._worker.run()

    @property
    def stats(self) -> Any:
        assert self._worker is not None
        return self._worker.stats

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        if isinstance(self._worker, AsyncWorker):
            assert self._loop is not None
            if self.is_running:
                self._loop.call_soon_threadsafe(self._worker.stop)
        elif self._worker is not None:
            self._worker.stop()

    def join(self) -> None:
        self._thread.join(WAIT_S)
        assert not self.is_running, "the worker did not end"


@contextmanager
def hired(kind: Kind, server: str, handling: Handling, **options: Any) -> Iterator[Hired]:
    """Have a worker run for as long as the block lasts; then all gates are opened and it is stopped."""
    worker = Hired(kind, server, handling, options)
    try:
        yield worker
    finally:
        for gate in handling.gates:
            gate.open()
        worker.stop()
        worker.join()


def publish(broker: Broker, values: Sequence[str], *, key: str | None = None, topic: str = TOPIC) -> None:
    """Publish values to the first partition of a topic."""
    with Client(broker.http) as client:
        client.send(messages.publish(topic, [NewMessage(value, key=key, partition=0) for value in values]))


def receive(
    broker: Broker, *, consumer: str = "other", topic: str = TOPIC, group: str = GROUP, wait_s: float = 0.0
) -> list[QueueMessage]:
    """Receive what there is, as another consumer of the group."""
    with Client(broker.http) as client:
        return client.send(queues.receive(group, topic, limit=100, consumer=consumer, wait_s=wait_s)).messages


def depth(broker: Broker) -> int:
    """Return how many messages are not done."""
    with Client(broker.http) as client:
        return client.send(queues.describe(GROUP)).depth


def dead_letters(broker: Broker, count: int) -> list[dict[str, bytes | None]]:
    """Wait for so many dead letters; return their headers, and their values as `value`."""
    found: list[dict[str, bytes | None]] = []
    with Client(broker.http) as client:
        while len(found) < count:
            got = client.send(queues.receive("triage", f"{TOPIC}.dlq", wait_s=60)).messages
            assert got, "there are not so many dead letters"
            for each in got:
                headers = {name.removeprefix("goqueue-dlq-"): value for name, value in each.message.headers}
                found.append(headers | {"value": each.value})
    return found
