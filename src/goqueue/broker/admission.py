"""Admission: the only way into the broker, for every operation of every protocol.

An operation is a function with `@operation`. Its first parameter offers the `admission` of the broker, its second one
is the caller. The decorator declares the name of the operation, the resource it acts on and whether it writes; it
admits each call, measures it, and counts its outcome. Publish and fetch end later than they begin, so they are declared
with `declare` and call `enter` and `leave` themselves. Permissions, quotas, audit and traces belong here.
"""

from __future__ import annotations

import inspect
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, Protocol, TypeVar

from goqueue.errors import DiskFull, Draining, GoQueueError
from goqueue.seams.clock import Clock

OK = "ok"
BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets that durations are counted in."""

Resource = Literal[
    "cluster", "topic", "group", "queue", "transaction", "producer", "sink", "redrive", "pipeline", "job"
]
"""The kinds of things that operations act on; a listing of all things of a kind acts on the cluster."""


class Caller(NamedTuple):
    """The caller of an operation; every caller has the same name so far.

    `client_id` is what a client calls itself: the client id of Kafka, or the User-Agent of HTTP.
    """

    protocol: str
    address: str = ""
    client_id: str = ""
    name: str = "anonymous"

    @property
    def host(self) -> str:
        """The host from which the caller has come."""
        return self.address.rpartition(":")[0]


INSIDE = Caller("inside", name="broker")
"""The broker itself."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declares an operation: `name` is `noun.verb`, `on` the kind of its resource.

    `at` is the path to the name of the resource: a parameter, and attributes of it. It is empty if the resource is the
    cluster. The parameter may hold one name, many, or None for all.
    """

    name: str
    on: Resource
    at: str
    writes: bool
    signature: inspect.Signature | None = None

    def resource_in(self, *args: Any, **kwargs: Any) -> object:
        """Return the name of the resource in the arguments of a call; None if it is the cluster."""
        if not self.at or self.signature is None:
            return None
        parameter, *attributes = self.at.split(".")
        found = self.signature.bind(*args, **kwargs).arguments.get(parameter)
        for attribute in attributes:
            found = getattr(found, attribute)
        return found


OPERATIONS: dict[str, Declaration] = {}
"""The declarations of all operations, by name."""


def declare(name: str, *, on: Resource, at: str, writes: bool = False) -> Declaration:
    """Declare an operation that calls `enter` and `leave` itself."""
    return _declared(Declaration(name, on, at, writes))


def _declared(declaration: Declaration) -> Declaration:
    if declaration.name in OPERATIONS:
        raise ValueError(f"two operations are called {declaration.name!r}")
    OPERATIONS[declaration.name] = declaration
    return declaration


@dataclass(slots=True)
class OperationStats:
    """How often an operation had an outcome, and how long that took."""

    count: int = 0
    seconds: float = 0.0
    by_bucket: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))


class OperationKey(NamedTuple):
    """An operation by one protocol with one outcome: `ok`, or the code of an error."""

    operation: str
    protocol: str
    outcome: str


class Admission:
    """Admits operations and counts them."""

    def __init__(self, clock: Clock) -> None:
        self.is_draining = False
        self.is_disk_guarded = False
        self.stats: dict[OperationKey, OperationStats] = {}
        self._clock = clock

    def enter(self, declaration: Declaration) -> float:
        """Admit an operation and return when it began; raises what forbids it."""
        if self.is_draining:
            raise Draining("the broker is about to stop", hint="try again; another one may take its place")
        if declaration.writes:
            self.require_room()
        return self._clock.monotonic()

    def require_room(self) -> None:
        """Raise DiskFull while the disk guard refuses writes."""
        if self.is_disk_guarded:
            raise DiskFull("the disk is nearly full, so nothing is written", hint="make room, or shorten retention.ms")

    def leave(self, declaration: Declaration, caller: Caller, began: float, outcome: str = OK, count: int = 1) -> None:
        """Count an operation that has ended, or several that were carried out together."""
        key = (declaration.name, caller.protocol, outcome)
        # A plain tuple finds what an OperationKey has put there, and is made in a fraction of the time.
        stats = self.stats.get(key)  # type: ignore[call-overload]
        if stats is None:
            stats = self.stats[OperationKey(*key)] = OperationStats()
        seconds = self._clock.monotonic() - began
        stats.count += count
        stats.seconds += seconds * count
        stats.by_bucket[bisect_left(BUCKETS_S, seconds)] += count


class Admitting(Protocol):
    """Something that operations work on."""

    @property
    def admission(self) -> Admission: ...


P = ParamSpec("P")
T = TypeVar("T")
AdmittingT = TypeVar("AdmittingT", bound=Admitting)
_Operation = Callable[Concatenate[AdmittingT, Caller, P], Awaitable[T]]


def operation(
    name: str, *, on: Resource, at: str = "", writes: bool = False
) -> Callable[[_Operation[AdmittingT, P, T]], _Operation[AdmittingT, P, T]]:
    """Make a function an operation: admitted, measured, and counted by outcome.

    The parameter after the caller names the resource, unless `at` tells the path to the name.
    """

    def decorate(function: _Operation[AdmittingT, P, T]) -> _Operation[AdmittingT, P, T]:
        signature = inspect.signature(function)
        path = "" if on == "cluster" else at or list(signature.parameters)[2]
        declaration = _declared(Declaration(name, on, path, writes, signature))

        @wraps(function)
        async def run(service: AdmittingT, caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> T:
            admission = service.admission
            outcome = "error"
            began = admission.enter(declaration)
            try:
                result = await function(service, caller, *args, **kwargs)
                outcome = OK
            except GoQueueError as error:
                outcome = error.code
                raise
            finally:
                admission.leave(declaration, caller, began, outcome)
            return result

        run.declaration = declaration  # type: ignore[attr-defined]
        return run

    return decorate
