"""Which endpoint a path leads to.

Starlette takes paths apart, one pattern after another, and there are many: that took longer than most requests take
themselves. So what a path leads to is remembered, as long as others have not taken its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from goqueue.protocols.http.endpoint import Endpoint, answer_unknown_path

_REMEMBERED = 1024
# Whoever sends long paths pays for them.
_REMEMBERED_CHARS_MAX = 256


class _Way(NamedTuple):
    endpoint: Endpoint
    prefix: str
    variables: Mapping[str, str]


class Switch:
    """All endpoints, as one ASGI application; each path is there below the prefix as well."""

    def __init__(self, endpoints: Sequence[tuple[str, Endpoint]], prefix: str) -> None:
        self._patterns = [(compile_path(path)[0], endpoint) for path, endpoint in endpoints]
        self._prefix = prefix
        self._find_short = lru_cache(_REMEMBERED)(self._find)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        way = self._find_short(path) if len(path) <= _REMEMBERED_CHARS_MAX else self._find(path)
        if way is None:
            await answer_unknown_path(scope, receive, send)
            return
        scope["root_path"], scope["path_params"] = way.prefix, way.variables
        await way.endpoint(scope, receive, send)

    def _find(self, path: str) -> _Way | None:
        below = path.removeprefix(self._prefix)
        for prefix, rest in (("", path), (self._prefix, below if below.startswith("/") else "")):
            for pattern, endpoint in self._patterns:
                match = pattern.match(rest)
                if match is not None:
                    return _Way(endpoint, prefix, match.groupdict())
        return None
