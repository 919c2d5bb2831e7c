"""Routes, and the decorator that registers a handler as one.

The decorator names method, path and errors. All else is read from the handler, once, when its module is imported: the
shape of the request is the annotation of its second parameter (the body, or the query for methods without a body), the
shape of the reply is what it returns; summary and description are its docstring. The handler itself stays the
function that it was, so a request costs nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from goqueue.errors import CoordinatorUnavailable, DiskFull, GoQueueError, LogOffline
from goqueue.protocols.faults import TABLE
from goqueue.protocols.http.calls import JSON

STORAGE_ERRORS = (LogOffline, DiskFull)
"""The errors of operations that write to the log of a partition."""
COORDINATOR_ERRORS = (CoordinatorUnavailable, *STORAGE_ERRORS)
"""The errors of operations that a coordinator stores in its log."""

Handler = Callable[..., Awaitable[object]]
H = TypeVar("H", bound=Handler)
_routes: dict[str, list[Route]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method on a path, and the handler for it.

    `request` is the shape of the body, or of the query for methods that have no body. `reply` is the shape of the
    reply with `status` and with each of `other_statuses`; all else is a problem document.
    """

    name: str
    method: str
    path: str
    summary: str
    description: str = ""
    handle: Handler
    request: type[msgspec.Struct] | None = None
    reply: type[msgspec.Struct] | None = None
    media_type: str = JSON
    status: int = 200
    other_statuses: Sequence[int] = ()
    errors: Sequence[type[GoQueueError]] = ()
    is_strict: bool = True

    @property
    def has_body(self) -> bool:
        """Whether a request has a body."""
        return self.method in {"POST", "PUT", "PATCH"}

    @property
    def tag(self) -> str:
        """The noun that the route belongs to."""
        return self.name.partition(".")[0]


def route(
    method: str,
    path: str,
    name: str,
    *,
    status: int = 200,
    other_statuses: Sequence[int] = (),
    errors: Sequence[type[GoQueueError]] = (),
    media_type: str = JSON,
    is_strict: bool = True,
) -> Callable[[H], H]:
    """Register a handler; `name` is its operation id, noun first.

    Routes that are not strict ignore the query.
    """

    def register(handler: H) -> H:
        summary, _, description = cleandoc(handler.__doc__ or "").partition("\n")
        hints = get_type_hints(handler)
        returned = hints.pop("return")
        requests = [hint for parameter, hint in hints.items() if parameter != "context"]
        found = Route(
            name=name,
            method=method,
            path=path,
            summary=summary.removesuffix("."),
            description=description.strip(),
            handle=handler,
            request=requests[0] if requests else None,
            reply=next(_shapes(returned), None),
            media_type=media_type,
            status=status,
            other_statuses=other_statuses,
            errors=errors,
            is_strict=is_strict,
        )
        _routes.setdefault(handler.__module__, []).append(found)
        return handler

    return register


def routes_of(module: str) -> Sequence[Route]:
    """Return the routes of a module, which has been imported, in the order of its handlers."""
    return _routes.get(module, ())


def item_statuses(errors: Sequence[type[GoQueueError]]) -> Sequence[int]:
    """Return the statuses, besides 200, of a reply with one result for each item, which may fail with these errors."""
    return (207, *sorted({TABLE[error.code].http for error in errors}))


def _shapes(returned: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the shapes in what a handler returns: itself, or inside of `Answer[...]`."""
    if isinstance(returned, type) and issubclass(returned, msgspec.Struct):
        yield returned
    for each in get_args(returned):
        yield from _shapes(each)
