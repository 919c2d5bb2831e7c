"""`goqueue consume --group`: a member of a group that prints messages, and commits them after they are printed.

It ends at its message count, or at Ctrl-C or SIGTERM. Either way it commits and leaves the group, so that other members
take over at once. Changes of its assignment go to stderr.

The reader of its output may be slow, so a thread of its own prints, while the loop sends heartbeats and handles
signals. A batch that is not completely printed when a signal comes is not committed. After a signal, the command waits
a limited time for the broker.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from goqueue.cli.terminal.tables import clean
from goqueue.client import AssignmentChange, AsyncClient, AsyncConsumer, GroupPartition, Patience, StartAt, topics
from goqueue.errors import GoQueueError, OffsetOutOfRange

if TYPE_CHECKING:
    from goqueue.cli.consume.output import Writer
    from goqueue.client import Message

_PAGE_MESSAGES = 500
_WAIT_S = 20.0
# These attempts take at least half a minute; a restarted broker is back by then.
_PATIENCE = Patience(attempts=16)
# After a signal the user does not want to wait.
_LEAVING = Patience(attempts=3)
_LEAVE_WITHIN_S = 10.0
_LAST_WRITE_S = 0.5
_SIGNAL_EXIT = 128
"""Shells add the number of the signal to this."""


class _End(NamedTuple):
    """The exit code, and whether the last batch is completely printed."""

    exit_code: int
    is_done: bool


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
    """Print messages as a member of a group until the count or a signal; return the exit code."""
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
        end = None
        try:
            # A second Ctrl-C, while it leaves, ends it at once.
            with _signals() as told:
                end = await _print(consumer, count, write, told)
        finally:
            if end is None:
                with suppress(GoQueueError, TimeoutError):
                    await _leave(consumer, is_done=False)
        if end.exit_code == 0:
            await consumer.close()
        else:
            await _leave_at_once(consumer, end)
        return end.exit_code


async def _leave_at_once(consumer: AsyncConsumer, end: _End) -> None:
    """Leave after a signal, even if the broker cannot be reached."""
    try:
        await _leave(consumer, is_done=end.is_done)
    except GoQueueError as error:
        typer.echo(clean(f"the last printed messages are not committed: {error.message} [{error.code}]"), err=True)
    except TimeoutError:
        typer.echo(f"the last printed messages may not be committed: no reply within {_LEAVE_WITHIN_S:g} s", err=True)


async def _leave(consumer: AsyncConsumer, *, is_done: bool) -> None:
    async with asyncio.timeout(_LEAVE_WITHIN_S):
        await consumer.close(is_done=is_done, patience=_LEAVING)


async def _print(consumer: AsyncConsumer, count: int | None, write: Writer, told: asyncio.Future[int]) -> _End:
    left = count
    troubles: dict[GroupPartition, str] = {}
    while left is None or left > 0:
        limit = _PAGE_MESSAGES if left is None else min(left, _PAGE_MESSAGES)
        found = await _poll(consumer, limit, told)
        is_done = not found or await _written(write, found, told)
        if left is not None:
            left -= len(found)
        if told.done():
            return _End(_SIGNAL_EXIT + told.result(), is_done)
        troubles = _show_troubles(consumer.errors.items(), troubles)
    return _End(0, is_done=True)


async def _written(write: Writer, found: list[Message], told: asyncio.Future[int]) -> bool:
    """Print messages; return whether all are printed. Returns soon after a signal."""
    loop = asyncio.get_running_loop()
    writing: asyncio.Future[None] = loop.create_future()

    def work() -> None:
        failure: Exception | None = RuntimeError("messages could not be printed")
        try:
            write(found)
            failure = None
        except (OSError, ValueError) as error:
            failure = error
        finally:
            # The loop may be closed already.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, writing, failure)

    # A daemon thread: the reader of the output may never read, and the exit must not wait for it.
    threading.Thread(target=work, name="goqueue-output", daemon=True).start()
    both: set[asyncio.Future[Any]] = {writing, told}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait({writing}, timeout=_LAST_WRITE_S)
    if writing.done():
        writing.result()
    return writing.done()


def _settle(writing: asyncio.Future[None], error: Exception | None) -> None:
    if error is None:
        writing.set_result(None)
    else:
        writing.set_exception(error)


async def _poll(consumer: AsyncConsumer, limit: int, told: asyncio.Future[int]) -> list[Message]:
    """Return messages; if a signal comes first, those that have arrived, perhaps none."""
    polling = asyncio.ensure_future(consumer.poll(limit=limit, wait_s=_WAIT_S))
    both: set[asyncio.Future[Any]] = {polling, told}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not polling.done():
        polling.cancel()
        await asyncio.wait({polling})
    return [] if polling.cancelled() else polling.result()


@contextmanager
def _signals() -> Iterator[asyncio.Future[int]]:
    """Turn Ctrl-C and SIGTERM into a future, for the length of the block."""
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
        typer.echo(f"lost its membership and joined again: {clean(change.lost.message)}", err=True)
    typer.echo(f"reads {_names(change.assignment) or 'nothing: other members have all partitions'}", err=True)


def _show_troubles(
    errors: Iterable[tuple[GroupPartition, GoQueueError]], before: dict[GroupPartition, str]
) -> dict[GroupPartition, str]:
    """Report partitions that cannot be read at their offset, each error once."""
    now = {each: _trouble(error) for each, error in errors if not error.retriable}
    for each, text in now.items():
        if before.get(each) != text:
            typer.echo(clean(f"{each} {text}"), err=True)
    return now


def _trouble(error: GoQueueError) -> str:
    what = "continues at another offset" if isinstance(error, OffsetOutOfRange) else "cannot be read"
    return f"{what}: {error.message} [{error.code}]"


def _names(partitions: Iterable[GroupPartition]) -> str:
    return ", ".join(str(each) for each in partitions)
