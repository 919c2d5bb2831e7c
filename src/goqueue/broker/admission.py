"""In front of every operation, whichever protocol it came by: who calls, whether that is possible now, what came of it.

An operation is a function with `@operation`; whoever calls it gives the broker and the caller first. The decorator is
the only way in, so nothing can be offered that is not admitted and counted here. The two hot operations (produce and
fetch), which end later than they begin, call `enter` and `leave` themselves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from goqueue.errors import DiskFull, Draining, GoQueueError
from goqueue.seams.clock import Clock

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

P = ParamSpec("P")
T = TypeVar("T")

OK = "ok"
BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the classes that durations are counted in."""


class Caller(NamedTuple):
    """Who asks: everybody is anonymous so far."""

    protocol: str
    address: str = ""
    name: str = "anonymous"

    @property
    def host(self) -> str:
        """The host from which the caller has come."""
        return self.address.rpartition(":")[0]


INSIDE = Caller("inside", name="broker")
"""The broker itself."""


@dataclass(slots=True)
class Tally:
    """How often an operation had an outcome, and how long that took."""

    count: int = 0
    seconds: float = 0.0
    by_bucket: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))


class TallyKey(NamedTuple):
    """An operation by one protocol with one outcome: `ok`, or the code of an error."""

    operation: str
    protocol: str
    outcome: str


class Pipeline:
    """Admits operations and keeps count of them."""

    def __init__(self, clock: Clock) -> None:
        self.is_draining = False
        self.is_disk_guarded = False
        self.tallies: dict[TallyKey, Tally] = {}
        self._clock = clock

    def enter(self, *, writes: bool = False) -> float:
        """Admit an operation and return when it began; raises what forbids it."""
        if self.is_draining:
            raise Draining("the broker is about to stop", hint="try again; another one may take its place")
        if writes:
            self.require_room()
        return self._clock.monotonic()

    def require_room(self) -> None:
        """Raise DiskFull while the disk guard refuses writes."""
        if self.is_disk_guarded:
            raise DiskFull("the disk is nearly full, so nothing is written", hint="make room, or shorten retention.ms")

    def leave(self, operation: str, protocol: str, began: float, outcome: str = OK, count: int = 1) -> None:
        """Count an operation that has ended, or several that were carried out together."""
        # A plain tuple finds what a TallyKey has put there, and is made in a fraction of the time.
        tally = self.tallies.get((operation, protocol, outcome))  # type: ignore[call-overload]
        if tally is None:
            tally = self.tallies[TallyKey(operation, protocol, outcome)] = Tally()
        seconds = self._clock.monotonic() - began
        tally.count += count
        tally.seconds += seconds * count
        tally.by_bucket[bisect_left(BUCKETS_S, seconds)] += count


def operation(
    name: str, *, writes: bool = False
) -> Callable[[Callable[Concatenate[Broker, P], Awaitable[T]]], Callable[Concatenate[Broker, Caller, P], Awaitable[T]]]:
    """Make a function an operation, whose caller says who it is: admitted, measured, counted by outcome."""

    def decorate(
        function: Callable[Concatenate[Broker, P], Awaitable[T]],
    ) -> Callable[Concatenate[Broker, Caller, P], Awaitable[T]]:
        @wraps(function)
        async def run(broker: Broker, caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> T:
            pipeline = broker.pipeline
            outcome = "error"
            began = pipeline.enter(writes=writes)
            try:
                result = await function(broker, *args, **kwargs)
                outcome = OK
            except GoQueueError as error:
                outcome = error.code
                raise
            finally:
                pipeline.leave(name, caller.protocol, began, outcome)
            return result

        return run

    return decorate
