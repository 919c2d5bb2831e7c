"""Workers: a handler is run for each message of a queue group, and its lease is kept while it runs.

    async def bill(message: QueueMessage) -> None:
        ...

    worker = client.worker("billing", "orders", bill, concurrency=20)
    await worker.run()

What becomes of a message follows from what the handler does: see `worker_values`. `run` ends on SIGTERM, SIGINT or
`stop`: nothing more is received, messages that were not begun are given back, handlers may finish. A second
signal does not wait for them, but async ones are cancelled, and one that goes on all the same keeps `run` going. If
`run` itself is cancelled, leases run out.

Inside of a web server, which handles signals itself, run a worker with `run(handles_signals=False)`, and call `stop`
when the server shuts down.

What happens when is decided by `worker_script` and carried out by `worker_crew`, once for both kinds of handlers.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from goqueue.client.worker_crew import Crew, Work
from goqueue.client.worker_script import WorkerScript
from goqueue.client.worker_threads import Handler, HandlerThreads
from goqueue.client.worker_values import WorkerStats
from goqueue.errors import Conflict, Invalid

if TYPE_CHECKING:
    from goqueue.client.client import AsyncClient

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class AsyncWorker:
    """A worker whose handler is an async function; it runs once."""

    def __init__(self, client: AsyncClient, script: WorkerScript, handler: Work) -> None:
        _check_handler(handler)
        self._client = client
        self._script = script
        self._crew = Crew(script, handler, is_cancellable=True)
        self._is_used = False

    @property
    def stats(self) -> WorkerStats:
        """What it has done so far."""
        return self._script.stats

    def stop(self) -> None:
        """Have `run` end once all handlers have; called again, without waiting for them."""
        self._crew.stop()

    async def run(self, *, handles_signals: bool = True) -> None:
        """Work until stopped; raise why the broker refuses for good, if it does.

        Signals are handled in the main thread only, beside handlers that the program has set. With
        `handles_signals=False` they are left alone: then the program calls `stop`.
        """
        _require_unused(is_used=self._is_used)
        self._is_used = True
        with _stopped_by_signals(self.stop, is_wanted=handles_signals):
            await self._crew.run(self._client)


class Worker:
    """A worker whose handler is a plain function, run in threads; it runs once. Async ones are not for it."""

    def __init__(self, connect: Callable[[], AsyncClient], script: WorkerScript, handler: Handler) -> None:
        _check_handler(handler)
        if inspect.iscoroutinefunction(handler):
            raise Invalid("the handler is an async function", hint="use a worker of AsyncClient")
        self._connect = connect
        self._script = script
        self._threads = HandlerThreads(handler, script.limits.concurrency)
        self._crew = Crew(script, self._threads.handle, is_cancellable=False)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stops = 0
        self._is_used = False
        self._starting = threading.Lock()

    @property
    def stats(self) -> WorkerStats:
        """What it has done so far."""
        return self._script.stats

    def stop(self) -> None:
        """Have `run` end once all handlers have; called again, without waiting for them. Any thread may call it."""
        with self._starting:
            self._stops += 1
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._crew.stop)

    def run(self, *, handles_signals: bool = True) -> None:
        """Work until stopped; raise why the broker refuses for good, if it does.

        Signals are handled in the main thread only, beside handlers that the program has set. With
        `handles_signals=False` they are left alone: then the program calls `stop`.
        """
        _require_unused(is_used=self._is_used)
        self._is_used = True
        with closing(self._threads), asyncio.Runner() as runner:
            runner.run(self._run(handles_signals=handles_signals))

    async def _run(self, *, handles_signals: bool) -> None:
        with self._starting:
            self._loop = asyncio.get_running_loop()
            for _ in range(self._stops):
                self._crew.stop()
        try:
            async with self._connect() as client:
                with _stopped_by_signals(self._crew.stop, is_wanted=handles_signals):
                    await self._crew.run(client)
        finally:
            with self._starting:
                self._loop = None


def topics_of(topics: str | Sequence[str]) -> Sequence[str]:
    """Return topics as a sequence, one or many."""
    return [topics] if isinstance(topics, str) else list(topics)


def _check_handler(handler: object) -> None:
    if not callable(handler):
        raise Invalid(f"the handler is a {type(handler).__name__}, which cannot be called with a message")


def _require_unused(*, is_used: bool) -> None:
    if is_used:
        raise Conflict("this worker has run already", hint="make another one")


@contextmanager
def _stopped_by_signals(stop: Callable[[], object], *, is_wanted: bool) -> Iterator[None]:
    """Have signals stop a worker for as long as the block lasts; afterwards they mean what they did before.

    A handler that the program has set, as a web server does, is called as well. One that belongs to the event loop is
    left alone, since it cannot be called: then the owner of the loop stops the worker.
    """
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        if is_wanted and threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                before = signal.getsignal(number)
                if _is_of_a_loop(before):
                    continue
                stack.callback(signal.signal, number, before)
                stack.callback(loop.remove_signal_handler, number)
                loop.add_signal_handler(number, _handling(stop, number, before))
        yield


def _is_of_a_loop(handler: object) -> bool:
    """Return whether a handler is what `loop.add_signal_handler` puts in place of one."""
    return "sighandler" in getattr(handler, "__name__", "")


def _handling(stop: Callable[[], object], number: signal.Signals, before: object) -> Callable[[], None]:
    # That of `asyncio.run` cancels the main task: a worker that ends by itself is what it is for.
    is_of_runner = isinstance(getattr(getattr(before, "func", None), "__self__", None), asyncio.Runner)
    is_default = before is signal.default_int_handler or is_of_runner

    def handle() -> None:
        stop()
        if callable(before) and not is_default:
            before(number, None)

    return handle
