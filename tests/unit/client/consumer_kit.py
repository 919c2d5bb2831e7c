"""Members of groups of both clients, sync and async, as tests use them: with the same words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from goqueue.client import AssignmentChange, AsyncClient, Client, Message, NewMessage, groups, messages
from goqueue.testing.broker import MovableClock


class AsyncMember:
    """A consumer of the async client, as one of the sync client looks."""

    def __init__(self, runner: asyncio.Runner, consumer: Any) -> None:
        self._runner = runner
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._consumer, name)
        if name in {"poll", "commit", "close"}:
            return lambda *given, **options: self._runner.run(found(*given, **options))
        return found

    def listen(self, hear: Callable[[AssignmentChange], object]) -> None:
        self._consumer.on_change = hear

    def begin_closing(self) -> None:
        """Close it by a task of its own, while others wait."""
        self._closing = asyncio.ensure_future(self._consumer.close())

    def wait_closed(self) -> None:
        """Wait until it is closed."""

        async def wait() -> None:
            await self._closing

        self._runner.run(wait())


class SyncMember:
    """A consumer of the sync client."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def listen(self, hear: Callable[[AssignmentChange], object]) -> None:
        self._consumer.on_change = hear


Made = Callable[..., Any]


@contextmanager
def making(kind: str, address: str, clock: MovableClock) -> Iterator[Made]:
    """Makes members of one of the clients, and lets all of them leave in the end."""
    with _making_sync(address, clock) if kind == "sync" else _making_async(address, clock) as make:
        yield make


@contextmanager
def _making_sync(address: str, clock: MovableClock) -> Iterator[Made]:
    made: list[Any] = []
    with Client(address, clock=clock) as client:

        def make(*given: Any, **options: Any) -> Any:
            made.append(SyncMember(client.consumer(*given, **options)))
            return made[-1]

        yield make
        for each in made:
            each.close()


@contextmanager
def _making_async(address: str, clock: MovableClock) -> Iterator[Made]:
    made: list[Any] = []
    with asyncio.Runner() as runner:

        async def begin() -> AsyncClient:
            return AsyncClient(address, clock=clock)

        client = runner.run(begin())

        def make(*given: Any, **options: Any) -> Any:
            async def build() -> Any:
                return client.consumer(*given, **options)

            made.append(AsyncMember(runner, runner.run(build())))
            return made[-1]

        yield make
        for each in made:
            each.close()
        runner.run(client.close())


def fill(client: Client, topic: str, *values: str, partition: int = 0) -> None:
    client.send(messages.publish(topic, [NewMessage(value, partition=partition) for value in values]))


def values(found: list[Message]) -> list[str]:
    return [(message.value or b"").decode() for message in found]


def read(member: Any, count: int, **options: Any) -> list[str]:
    """Poll until so many messages have come, in a minute at most."""
    found: list[str] = []
    for _ in range(60):
        if len(found) >= count:
            break
        found += values(member.poll(wait_s=1.0, **options))
    return found


def committed(client: Client, group: str) -> dict[int, int | None]:
    return {each.partition: each.offset for each in client.send(groups.offsets(group)).offsets if each.offset}


@contextmanager
def expelled(client: Client, group: str, member: Any) -> Iterator[None]:
    """Somebody sends the member away, and does not tell it."""
    client.send(groups.leave(group, member.member.member_id))
    yield
