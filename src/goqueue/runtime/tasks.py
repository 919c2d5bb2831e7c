"""The one place where tasks are created: named, owned, and ended with their owner.

Work that must not stop half-way when its caller goes away (a client that hangs up while a topic is being made) runs
here, and the caller only waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from goqueue.runtime.waiters import turns
from goqueue.seams.sink import Event, Severity, Sink

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskFailed(Event):
    """A task ended with an unexpected error."""

    severity: ClassVar[Severity] = Severity.ERROR
    task: str
    error: str


class Tasks:
    """The tasks of one owner."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._running: dict[asyncio.Task[Any], None] = {}
        self._turns: dict[str, asyncio.Task[Any]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run something beside the caller; an error that it ends with is reported."""
        return self._own(work, name, self._report)

    async def finish(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Run something to its end, even if the caller is cancelled meanwhile, and return its result."""
        return await asyncio.shield(self._own(work, name, self._forget))

    async def in_turn(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run something to its end as `finish` does, once all that was begun under this name before has ended."""

        async def run(before: asyncio.Task[Any] | None) -> T:
            if before is not None:
                await asyncio.wait([before])
            return await work()

        task = self._turns[name] = self._own(run(self._turns.get(name)), name, self._forget)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel the running tasks and wait for their end."""
        while self._running:
            running = list(self._running)
            # This lets all of them begin: a task that never began could not wake its waiters.
            await turns(1)
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    async def drain(self) -> None:
        """Wait until nothing is running any more."""
        while self._running:
            await asyncio.wait(list(self._running))

    def _own(
        self, work: Coroutine[Any, Any, T], name: str, ended: Callable[[asyncio.Task[Any]], object]
    ) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(ended)
        return task

    def _report(self, task: asyncio.Task[Any]) -> None:
        error = self._forget(task)
        if error is not None:
            self._sink.emit(TaskFailed(task.get_name(), repr(error)))

    def _forget(self, task: asyncio.Task[Any]) -> BaseException | None:
        """Give up a task that has ended, and return its error: a caller that waited for it may be gone."""
        del self._running[task]
        if self._turns and self._turns.get(task.get_name()) is task:
            del self._turns[task.get_name()]
        # asyncio reports errors that were never retrieved.
        return None if task.cancelled() else task.exception()
