"""Carries out what `worker_script` says, on an event loop: it receives, runs handlers, renews leases and settles.

There is one loop for each of these, beside the handlers. Each goes on whatever becomes of the others: a broker that
cannot be reached is asked again after a pause, by each of them, until the worker is to end; the first answer that one
of them gets ends the pauses of the others. What is to be settled is sent as soon as the request before is answered, and
so in as large batches as there is work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from goqueue.client.acts import Acts, carry_out_async
from goqueue.client.conversation import Patience
from goqueue.client.queues import QueueMessage
from goqueue.client.worker_jobs import Job
from goqueue.client.worker_script import WorkerScript, is_final, is_unanswered
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.client import AsyncClient

Work = Callable[[QueueMessage], Awaitable[object]]

# A receive that takes longer has found nothing, and waits.
_ANSWER_S = 0.5
# How long the last words to the broker may take, when all handlers have ended.
_LAST_WORDS_S = 5.0
_ONCE = Patience(attempts=1)


class Crew:
    """The tasks of one worker; a handler that `is_cancellable` ends soon after it is cancelled."""

    def __init__(self, script: WorkerScript, work: Work, *, is_cancellable: bool) -> None:
        self._script = script
        self._work = work
        self._is_cancellable = is_cancellable
        self._handling: dict[Job, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._is_hurried = False
        self._changed = asyncio.Event()
        self._answered = asyncio.Event()
        self._failure: BaseException | None = None
        self._asked_at = 0.0

    def stop(self) -> None:
        """Have it end once all handlers have; the second time, without waiting for them."""
        if self._stopping.is_set():
            self._is_hurried = True
            self._changed.set()
        self._stopping.set()

    async def run(self, client: AsyncClient) -> None:
        """Work until told to stop; raise why the broker refuses to deliver anything for good."""
        async with asyncio.TaskGroup() as tasks:
            loops = [
                tasks.create_task(self._settle_all(client), name="goqueue-worker-settle"),
                tasks.create_task(self._renew_all(client), name="goqueue-worker-renew"),
            ]
            receiving = tasks.create_task(self._receive_all(client, tasks), name="goqueue-worker-receive")
            try:
                await self._stopping.wait()
                self._script.is_stopping = True
                self._changed.set()
                await self._end_receiving(receiving)
                self._script.give_back_unstarted()
                self._changed.set()
                await self._drain()
            finally:
                # Handlers that end because all of this is cancelled begin nothing more.
                self._script.is_stopping = True
            for each in loops:
                each.cancel()
        if self._failure is not None:
            raise self._failure

    # -- the loops

    async def _receive_all(self, client: AsyncClient, tasks: asyncio.TaskGroup) -> None:
        is_prepared = False
        while not self._script.is_stopping:
            if not is_prepared:
                is_prepared = await self._attempt(client, "prepare", self._script.prepare())
                continue
            if limit := self._script.room():
                self._asked_at = asyncio.get_running_loop().time()
                await self._attempt(client, "receive", self._script.receive(limit))
            else:
                await self._until(lambda: self._script.room() > 0 or self._script.is_stopping)
            self._start_handlers(tasks)

    async def _settle_all(self, client: AsyncClient) -> None:
        while True:
            await self._until(lambda: self._script.is_to_settle)
            await self._attempt(client, "settle", self._script.settle())
            self._changed.set()

    async def _renew_all(self, client: AsyncClient) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_at = loop.time() + self._script.until_due_s()
            await self._pause(due_at - loop.time())
            self._script.woken(loop.time() - due_at)
            for job in self._script.give_up_overrun():
                self._cancel(job)
            self._script.give_back_what_waits()
            # Nothing may be due, and then nobody has answered.
            if due := self._script.due():
                await self._attempt(client, "renew", self._renewals(due))
            self._changed.set()

    def _renewals(self, due: Sequence[Job]) -> Acts[None]:
        lost = yield from self._script.renew(due)
        for job in lost:
            self._cancel(job)

    async def _attempt(self, client: AsyncClient, act: str, acts: Acts[None]) -> bool:
        """Carry acts out, and tell whether that was possible; if not, pause before the next attempt."""
        try:
            await carry_out_async(client, acts, patience=_ONCE)
        except GoQueueError as error:
            pause_s = self._script.failed(act, error)
            if act in {"prepare", "receive"} and is_final(error):
                self._end(error)
            if is_unanswered(error):
                await self._pause(pause_s, ended_by=self._answered)
            else:
                self._answered.set()
                # What is refused would be refused again, however many others succeed.
                await self._pause(pause_s)
            return False
        self._script.succeeded(act)
        self._answered.set()
        return True

    # -- handlers

    def _start_handlers(self, tasks: asyncio.TaskGroup) -> None:
        while (job := self._script.start()) is not None:
            task = tasks.create_task(self._handle(job, tasks), name="goqueue-worker-handler")
            self._handling[job] = task

    async def _handle(self, job: Job, tasks: asyncio.TaskGroup) -> None:
        """Run a handler to its end; what becomes of the message is said later, together with others."""
        error: BaseException | None = None
        try:
            await self._work(job.message)
        except BaseException as raised:
            # The edge of a user's function: whatever it raises is said to the broker. If it was cancelled, this is the
            # end of its task anyway.
            if not self._is_at_work(job):
                raise
            error = raised
            if isinstance(raised, KeyboardInterrupt | SystemExit):
                self._end(raised)
        del self._handling[job]
        self._script.finish(job, error)
        self._changed.set()
        self._start_handlers(tasks)

    def _is_at_work(self, job: Job) -> bool:
        """Return whether the task of a handler goes on; one whose loop is gone is closed from outside."""
        task = self._handling[job]
        return asyncio.current_task(task.get_loop()) is task

    def _cancel(self, job: Job) -> None:
        if self._is_cancellable and job in self._handling:
            self._handling[job].cancel()

    # -- the end

    def _end(self, failure: BaseException) -> None:
        """Have it stop, and raise that in the end."""
        self._failure = self._failure or failure
        self._stopping.set()

    async def _end_receiving(self, receiving: asyncio.Task[None]) -> None:
        """End a receive, unless its answer may be on its way: messages that nobody takes are leased all the same."""
        asked_s = asyncio.get_running_loop().time() - self._asked_at
        await asyncio.wait([receiving], timeout=max(0.0, _ANSWER_S - asked_s))
        receiving.cancel()
        await asyncio.wait([receiving])

    async def _drain(self) -> None:
        """Wait for handlers, cancel those that take too long, and have the broker know what became of all messages.

        No task ends against its will: a handler that goes on when it is cancelled keeps its lease, and is heard.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._script.limits.drain_s):
                await self._until(lambda: not self._handling or self._is_hurried)
        for job, task in list(self._handling.items()):
            self._script.cut(job, goes_on=not self._is_cancellable)
            task.cancel()
        await self._until(lambda: not self._handling)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._until(lambda: self._script.is_settled)

    async def _until(self, fact: Callable[[], bool]) -> None:
        while not fact():
            self._changed.clear()
            await self._changed.wait()

    async def _pause(self, seconds: float, *, ended_by: asyncio.Event | None = None) -> None:
        ending = ended_by or asyncio.Event()
        ending.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ending.wait()
