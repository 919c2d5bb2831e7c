"""All routes of the HTTP interface: those of the modules of `api`, in the order in which the documents show them.

A new noun is added to `_MODULES`. Every path is also there below `/v1`.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import Draining, GoQueueError, MalformedRequest
from goqueue.protocols.http.api import dead_letters, messages, queues, runs, status, topics, transactions
from goqueue.protocols.http.api.groups import admin as groups
from goqueue.protocols.http.api.groups import members, offsets, poll
from goqueue.protocols.http.calls import Services
from goqueue.protocols.http.route import Route, routes_of
from goqueue.protocols.http.wire.endpoint import Endpoint
from goqueue.protocols.http.wire.hosts import HostNotAllowed, OriginNotAllowed
from goqueue.protocols.http.wire.problems import BodyTooLarge, UnsupportedContentEncoding, UnsupportedMediaType
from goqueue.protocols.http.wire.switch import Switch

PREFIX = "/v1"

_MODULES = (
    topics,
    messages,
    groups,
    members,
    poll,
    offsets,
    queues,
    dead_letters,
    transactions,
    runs,
    status,
)

ROUTES: Sequence[Route] = [route for module in _MODULES for route in routes_of(module.__name__)]


def errors_of(route: Route) -> Sequence[type[GoQueueError]]:
    """Return all errors that a route can answer with, those included that every route has."""
    common: list[type[GoQueueError]] = [HostNotAllowed, OriginNotAllowed]
    if route.is_strict:
        common += [MalformedRequest, Draining]
    if route.has_body:
        common += [UnsupportedMediaType, UnsupportedContentEncoding, BodyTooLarge]
    return list(dict.fromkeys([*route.errors, *common]))


def switch(services: Services) -> Switch:
    """Return what finds the endpoint of a request."""
    by_path: dict[str, list[Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, []).append(route)
    # They are tried in this order, so `stats` goes before `{id}`.
    paths = sorted(by_path, key=len, reverse=True)
    # Ids and names of groups may be anything, slashes included.
    return Switch([(path, Endpoint(by_path[path], services)) for path in paths], PREFIX, free=("id", "group"))
