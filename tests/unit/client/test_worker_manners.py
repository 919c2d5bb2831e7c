"""A worker inside of another program: failures are logged with tracebacks, and signals stay with their owner."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client, NewMessage, QueueMessage, messages
from goqueue.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running, Client(running.http) as client:
        client.send(messages.publish("orders", [NewMessage("one", partition=0)]))
        yield running


@pytest.fixture
def sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_failed_handler_is_logged_with_its_traceback(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        def fail() -> None:
            worker.stop()
            raise ZeroDivisionError("by nothing")

        async def handle(_: QueueMessage) -> None:
            fail()

        async with AsyncClient(broker.http) as client:
            worker = client.worker("billing", "orders", handle, wait_s=0.5)
            await worker.run(handles_signals=False)

    with caplog.at_level(logging.WARNING, "goqueue"):
        asyncio.run(work())
    (line,) = [each for each in caplog.messages if each.startswith("WorkFailed")]
    assert "ZeroDivisionError: by nothing" in line.splitlines()[0]
    assert "Traceback (most recent call last)" in line
    assert "in fail" in line


def test_error_that_quotes_a_large_message_is_logged_in_part(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async def handle(_: QueueMessage) -> None:
            worker.stop()
            raise ValueError("no invoice in " + "x" * 5_000_000 + " at all")

        async with AsyncClient(broker.http) as client:
            worker = client.worker("billing", "orders", handle, wait_s=0.5)
            await worker.run(handles_signals=False)

    with caplog.at_level(logging.WARNING, "goqueue"):
        asyncio.run(work())
    (line,) = [each for each in caplog.messages if each.startswith("WorkFailed")]
    assert len(line) < 30_000
    assert "ValueError: no invoice in x" in line
    assert line.endswith(" at all")


async def run_and_signal(broker: Broker, install: Callable[[Callable[[], None]], None], *, handles: bool) -> list[str]:
    """Run a worker under an owner of the loop that has a handler of its own, and send SIGTERM; return who was told."""
    told: list[str] = []
    heard, begun = asyncio.Event(), asyncio.Event()

    def hear() -> None:
        told.append("owner")
        heard.set()

    install(hear)

    async def handle(_: QueueMessage) -> None:
        begun.set()

    async with AsyncClient(broker.http) as client:
        worker = client.worker("billing", "orders", handle, wait_s=0.5)
        running = asyncio.create_task(worker.run(handles_signals=handles))
        await begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(heard.wait(), 30)
        worker.stop()
        await running
    return told


@pytest.mark.usefixtures("sigterm")
@pytest.mark.parametrize("handles", [True, False])
@pytest.mark.parametrize("is_partial", [True, False])
def test_sigterm_reaches_the_handler_of_a_server(broker: Broker, handles: bool, is_partial: bool) -> None:
    def install(hear: Callable[[], None]) -> None:
        handler: Any = lambda *_: hear()  # noqa: E731 - one of two that do the same
        signal.signal(signal.SIGTERM, functools.partial(handler, "server") if is_partial else handler)

    assert asyncio.run(run_and_signal(broker, install, handles=handles)) == ["owner"]


@pytest.mark.usefixtures("sigterm")
@pytest.mark.parametrize("handles", [True, False])
def test_sigterm_reaches_the_handler_of_the_loop(broker: Broker, handles: bool) -> None:
    def install(hear: Callable[[], None]) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, hear)

    assert asyncio.run(run_and_signal(broker, install, handles=handles)) == ["owner"]


def test_calls_of_an_async_client_share_few_connections(broker: Broker) -> None:
    async def work() -> int:
        async with AsyncClient(broker.http) as client:
            waiting = [
                asyncio.create_task(client.send(messages.read("orders", 0, offset=1, wait_s=30))) for _ in range(20)
            ]
            # Those that wait for messages keep none of these from being sent.
            await asyncio.gather(
                *(client.send(messages.publish("others", [NewMessage("x")])) for _ in range(64)),
            )
            pool = client._http._transport._pool  # type: ignore[attr-defined]
            found = len(pool.connections)
            await client.send(messages.publish("orders", [NewMessage("two", partition=0)]))
            await asyncio.gather(*waiting)
            return found

    assert asyncio.run(work()) <= 8
