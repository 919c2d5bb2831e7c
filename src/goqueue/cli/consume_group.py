"""`goqueue consume --group`: a member of a group that prints what it is given, and commits what it has printed.

It goes on until it has printed as many messages as it was asked for, or is told to stop by Ctrl-C or SIGTERM; either
way it commits and leaves, so that others take over at once. What it reads, and what it has lost, is told on stderr.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from goqueue.client import AssignmentChange, AsyncClient, AsyncConsumer, GroupPartition, Patience, StartAt, topics

if TYPE_CHECKING:
    from goqueue.cli.consume_output import Writer
    from goqueue.client import Message
    from goqueue.errors import GoQueueError

_PAGE_MESSAGES = 500
_WAIT_S = 20.0
# A broker that is restarted comes back within these attempts, which take half a minute or more.
_PATIENCE = Patience(attempts=16)
_SIGNAL_EXIT = 128
"""What shells add to the number of the signal that ended a command."""


async def consume_as_member(
    server: str,
    topic: str,
    group: str,
    count: int | None,
    write: Writer,
    *,
    is_from_end: bool,
    is_committed_only: bool,
) -> int:
    """Print messages as a member of a group until there were enough, or a signal came; return the exit code."""
    async with AsyncClient(server, patience=Patience(attempts=1)) as client:
        await client.send(topics.describe(topic))
    async with AsyncClient(server, patience=_PATIENCE) as client:
        consumer = client.consumer(
            group,
            [topic],
            client_id=f"consume-{socket.gethostname()}"[:100],
            start_at=StartAt.LATEST if is_from_end else StartAt.EARLIEST,
            is_committed_only=is_committed_only,
        )
        consumer.on_change = _show_change
        async with consumer:
            # Whoever presses Ctrl-C again, while it leaves, does not want to wait for that.
            with _signals() as told:
                return await _print(consumer, count, write, told)


async def _print(consumer: AsyncConsumer, count: int | None, write: Writer, told: asyncio.Future[int]) -> int:
    left = count
    troubles: dict[GroupPartition, str] = {}
    while left is None or left > 0:
        limit = _PAGE_MESSAGES if left is None else min(left, _PAGE_MESSAGES)
        found = await _poll(consumer, limit, told)
        if found:
            write(found)
        if left is not None:
            left -= len(found)
        if told.done():
            return _SIGNAL_EXIT + told.result()
        troubles = _show_troubles(consumer.errors.items(), troubles)
    return 0


async def _poll(consumer: AsyncConsumer, limit: int, told: asyncio.Future[int]) -> list[Message]:
    """Return messages; if a signal comes first, those that have arrived, which may be none."""
    polling = asyncio.ensure_future(consumer.poll(limit=limit, wait_s=_WAIT_S))
    both: set[asyncio.Future[Any]] = {polling, told}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not polling.done():
        polling.cancel()
        await asyncio.wait({polling})
    return [] if polling.cancelled() else polling.result()


@contextmanager
def _signals() -> Iterator[asyncio.Future[int]]:
    """Take Ctrl-C and SIGTERM as wishes to stop, for the length of the block."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[int] = loop.create_future()

    def wish(number: int) -> None:
        if not told.done():
            told.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, wish, number)
    try:
        yield told
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _show_change(change: AssignmentChange) -> None:
    if change.lost is not None:
        typer.echo(f"was no member any more, and has joined again: {change.lost.message}", err=True)
    typer.echo(f"reads {_names(change.assignment) or 'nothing now: others have all partitions'}", err=True)


def _show_troubles(
    errors: Iterable[tuple[GroupPartition, GoQueueError]], before: dict[GroupPartition, str]
) -> dict[GroupPartition, str]:
    """Say which partitions cannot be read, and why, once each."""
    now = {each: f"{error.message} [{error.code}]" for each, error in errors if not error.retriable}
    for each, text in now.items():
        if before.get(each) != text:
            typer.echo(f"{each} cannot be read: {text}", err=True)
    return now


def _names(partitions: Iterable[GroupPartition]) -> str:
    return ", ".join(str(each) for each in partitions)
