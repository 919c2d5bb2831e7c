"""An event loop for simulations: one seed decides the order of everything, and time passes only when all wait.

`goqueue.testing.simulation` puts a clock, entropy and a network around it. Code under test needs no change;
`asyncio.timeout`, `TaskGroup`, `Queue`, `to_thread` work as ever.

What holds:

- Ready callbacks run one at a time in an order that the seed draws. asyncio promises first come, first served
  for `call_soon`; code that leans on this order between tasks is what a simulation exists to find.
- The clock stands still while anything is ready and then jumps to the next timer. An hour costs what happens
  in it.
- A blocking function given to an executor runs inline; when it starts, when its result is seen, and which of
  several goes first are drawn too. A cancelled caller does not stop a job that has begun.
- Sockets, pipes, processes, signals, name lookups and calls from real threads are refused with
  `RealWorldRefused`.
- Same seed, same run, in any process: nothing depends on addresses of objects or the order of hashes. Tasks
  and futures are numbered, and garbage is collected at fixed steps. `SimLoop.fingerprint` is the proof.
- Task factories are ignored: every task is a `SimTask`.
- No error is lost: what asyncio would only log is raised at once, unless the code under test has set an
  exception handler of its own.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import hashlib
import heapq
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Executor
from contextvars import Context
from pathlib import PurePath
from types import FrameType
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from typing_extensions import override

from goqueue.testing.entropy import SeededEntropy

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEPS_MAX = 1_000_000
SECONDS_MAX = 86_400.0
# The number of steps that tasks may take after they were cancelled at the end.
_WIND_DOWN_STEPS = 100_000
_WIND_DOWN_SECONDS = 3_600.0
_RECENT_STEPS = 200
_NOTED_STEPS = 10
# A job of an executor waits up to this long for a thread, and its result as long to be seen.
_JOB_SECONDS_MAX = 0.002
_COLLECT_EVERY_STEPS = 50_000
_PURGE_TIMERS_MIN = 100


class SimulationError(Exception):
    """A simulation cannot go on, or ended badly."""


class Deadlock(SimulationError):
    """Everything waits, and no timer will end the wait."""


class Stuck(SimulationError):
    """More steps or more virtual time than allowed: most likely the program goes round in circles."""


class RealWorldRefused(SimulationError):
    """The code under test reached for something that a seed cannot decide."""


class Unhandled(SimulationError):
    """An unhandled error: in a callback, or of a task that was never awaited."""


class SimFuture(asyncio.Future[T]):
    """A future that hashes by its number: asyncio keeps sets, whose order must not depend on addresses."""

    def __init__(self, *, loop: SimLoop) -> None:
        self.number = loop.next_number()
        super().__init__(loop=loop)

    @override
    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[T]):
    """A task that hashes by its number, as `SimFuture` does; it also gives the task its name."""

    def __init__(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: SimLoop,
        name: object,
        context: Context | None,
    ) -> None:
        # First of all, because the base class puts the task into a set at once.
        self.number = loop.next_number()
        # asyncio would count tasks through the whole process.
        super().__init__(coro, loop=loop, name=str(name or f"task-{self.number}"), context=context)

    @override
    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.BaseEventLoop):
    """An event loop without a selector, on virtual time that starts at 0."""

    def __init__(self, seed: int | str, *, steps_max: int = STEPS_MAX, seconds_max: float = SECONDS_MAX) -> None:
        super().__init__()
        self.seed = seed
        self.steps = 0
        self.steps_max = steps_max
        self.seconds_max = seconds_max
        self.recent: deque[str] = deque(maxlen=_RECENT_STEPS)
        self._entropy = SeededEntropy(seed).fork("schedule")
        self._home_thread = threading.get_ident()
        self._now = 0.0
        # The base class appends to these two and clears them; a list lets a step take from the middle.
        self._ready: list[asyncio.Handle] = []
        self._scheduled: list[asyncio.TimerHandle] = []
        self._timers_cancelled = 0
        self._numbers = itertools.count(1)
        self._digest = hashlib.blake2b(digest_size=16)
        self._watched: weakref.WeakSet[SimFuture[Any] | SimTask[Any]] = weakref.WeakSet()
        self._unhandled: list[tuple[str, BaseException | None]] = []
        self._fails_at_once = True

    def fingerprint(self) -> str:
        """Return a digest of all steps so far: when each ran and what it was. Equal runs have equal ones."""
        return self._digest.hexdigest()

    def next_number(self) -> int:
        """Return the next of the numbers that stand in for addresses."""
        return next(self._numbers)

    def raise_unhandled(self) -> None:
        """Raise the first unhandled error, if there is one."""
        if self._unhandled:
            message, cause = self._unhandled[0]
            raise Unhandled(message) from cause

    def wind_down(self) -> list[str]:
        """Cancel the tasks that still run, let them end, and return what they were waiting for."""
        pending = sorted(asyncio.all_tasks(self), key=hash)
        waits = [_describe(task) for task in pending]
        for task in pending:
            task.cancel()
        self._fails_at_once = False
        self.steps_max = self.steps + _WIND_DOWN_STEPS
        self.seconds_max = self._now + _WIND_DOWN_SECONDS
        try:
            if pending:
                self.run_until_complete(asyncio.wait(pending))
            self.run_until_complete(self.shutdown_asyncgens())
        except SimulationError as error:
            self._unhandled.append(("the cancelled tasks do not end", error))
        for future in sorted(self._watched, key=hash):
            if future.done() and future._log_traceback:
                self._unhandled.append((f"nobody awaited {_name(future)}, which failed", future.exception()))
        return waits

    def story(self) -> str:
        """Return details for a failure: the seed, the moment, other errors, and the last steps."""
        lines = [f"simulation: seed {self.seed!r}, step {self.steps}, {self._now:.6f} s of virtual time"]
        lines += [f"unhandled: {message}: {cause!r}" for message, cause in self._unhandled]
        lines += [f"ran: {step}" for step in list(self.recent)[-_NOTED_STEPS:]]
        return "\n".join(lines)

    @override
    def time(self) -> float:
        return self._now

    @override
    def create_future(self) -> SimFuture[Any]:
        future: SimFuture[Any] = SimFuture(loop=self)
        self._watched.add(future)
        return future

    @override
    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **_options: object,
    ) -> asyncio.Task[T]:
        """Create a task whose first step is drawn like any other; an eager start is ignored."""
        task: SimTask[T] = SimTask(coro, loop=self, name=name, context=context)
        self._watched.add(task)
        return task

    @override
    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run a blocking function inline, at a later moment; which executor was given makes no difference."""
        outcome = self.create_future()
        self.call_later(self._job_delay(), self._run_job, outcome, functools.partial(func, *args))
        return outcome

    @override
    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        thread = threading.current_thread().name
        if threading.get_ident() != self._home_thread:
            raise RealWorldRefused(f"thread {thread!r} called into a simulation, which cannot order real threads")
        return self.call_soon(callback, *args, context=context)

    @override
    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self._unhandled.append((str(context.get("message", "error in a callback")), context.get("exception")))

    def _run_once(self) -> None:
        """Take one step; the base class calls this until the loop is stopped."""
        self._collect_due_timers()
        if not self._ready:
            self._jump_to_next_timer()
            return
        # The last one fills the gap of the drawn one: constant time, and the order is drawn anyway.
        index = self._entropy.below(len(self._ready))
        handle = self._ready[index]
        self._ready[index] = self._ready[-1]
        self._ready.pop()
        if handle.cancelled():
            return
        self._note_step(handle)
        handle._run()
        if self._unhandled and self._fails_at_once:
            self.raise_unhandled()

    def _collect_due_timers(self) -> None:
        timers = self._scheduled
        while timers and (timers[0].cancelled() or timers[0].when() <= self._now):
            timer = heapq.heappop(timers)
            if timer.cancelled():
                self._timers_cancelled -= 1
            else:
                self._ready.append(timer)

    def _jump_to_next_timer(self) -> None:
        if not self._scheduled:
            raise Deadlock("nothing can run and no timer is set; waiting:\n" + self._waiting())
        when = self._scheduled[0].when()
        if when > self.seconds_max:
            raise Stuck(f"the next timer lies beyond {self.seconds_max} s; waiting:\n" + self._waiting())
        self._now = when

    def _note_step(self, handle: asyncio.Handle) -> None:
        self.steps += 1
        if self.steps > self.steps_max:
            raise Stuck(f"more than {self.steps_max} steps; waiting:\n" + self._waiting())
        if self.steps % _COLLECT_EVERY_STEPS == 0:
            gc.collect()
        step = f"{self._now!r} {_what(handle)}"
        self.recent.append(step)
        self._digest.update(step.encode())

    def _waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        return "\n".join(f"  {_describe(task)}" for task in tasks) or "  no task"

    def _job_delay(self) -> float:
        return self._entropy.fraction() * _JOB_SECONDS_MAX

    def _run_job(self, outcome: asyncio.Future[T], job: Callable[[], T]) -> None:
        # A real executor withdraws a job that still queues, and cannot stop one that a thread has taken.
        if outcome.cancelled() and self._entropy.chance(0.5):
            return
        result: T | None = None
        failure: Exception | None = None
        # As in a real thread, no loop is running there.
        asyncio._set_running_loop(None)
        try:
            result = job()
        except Exception as error:  # noqa: BLE001 - an executor hands every error to the caller
            failure = error
        finally:
            asyncio._set_running_loop(self)
        self.call_later(self._job_delay(), _settle, outcome, result, failure)

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Forget cancelled timers once they are the larger part; the base class calls this for each."""
        self._timers_cancelled += 1
        if self._timers_cancelled > max(_PURGE_TIMERS_MIN, len(self._scheduled) // 2):
            self._scheduled[:] = [timer for timer in self._scheduled if not timer.cancelled()]
            heapq.heapify(self._scheduled)
            self._timers_cancelled = 0

    def _write_to_self(self) -> None:
        """Wake no selector: there is none."""


def _settle(outcome: asyncio.Future[Any], result: object, failure: Exception | None) -> None:
    if outcome.done():
        return
    if failure is not None:
        outcome.set_exception(failure)
    else:
        outcome.set_result(result)


def _what(handle: asyncio.Handle) -> str:
    """Name what a handle runs, without addresses: the task, or the function."""
    callback: Any = handle._callback  # type: ignore[attr-defined]
    while isinstance(callback, functools.partial):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return str(getattr(callback, "__qualname__", type(callback).__name__))


def _name(future: asyncio.Future[Any]) -> str:
    return f"task {future.get_name()!r}" if isinstance(future, asyncio.Task) else "a future"


def _describe(task: asyncio.Task[Any]) -> str:
    """Say where a task waits: its own functions from the outermost to the innermost."""
    frames = " > ".join(
        f"{frame.f_code.co_qualname} ({PurePath(frame.f_code.co_filename).name}:{frame.f_lineno})"
        for frame in _suspended_frames(task.get_coro())
    )
    return f"{task.get_name()}: {frames or 'not started'}"


def _suspended_frames(awaited: object) -> Iterator[FrameType]:
    """Follow a chain of awaits down to the future at its end."""
    while awaited is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(awaited, f"{kind}_frame")), None)
        if kind is None:
            return
        frame = getattr(awaited, f"{kind}_frame")
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(_loop: SimLoop, *_args: object, **_kwargs: object) -> NoReturn:
        raise RealWorldRefused(f"loop.{name} reaches outside of the simulation; use the injected seams instead")

    return refuse


for _operation in (
    *(
        "create_connection",
        "create_server",
        "create_datagram_endpoint",
        "connect_accepted_socket",
        "start_tls",
    ),
    *("create_unix_connection", "create_unix_server", "connect_read_pipe", "connect_write_pipe", "sendfile"),
    *("subprocess_exec", "subprocess_shell", "add_reader", "remove_reader", "add_writer", "remove_writer"),
    *("sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendto"),
    *("sock_connect", "sock_accept", "sock_sendfile", "getaddrinfo", "getnameinfo", "add_signal_handler"),
):
    setattr(SimLoop, _operation, _refusal(_operation))
