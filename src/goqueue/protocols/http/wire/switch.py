"""Finds the endpoint of a path.

Trying one pattern after another takes longer than most requests, so the results of recent paths are cached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from goqueue.broker.admission import Caller
from goqueue.protocols.http.calls import Answer
from goqueue.protocols.http.wire.endpoint import Endpoint
from goqueue.protocols.http.wire.hosts import preflight_headers
from goqueue.protocols.http.wire.problems import UnknownPath
from goqueue.protocols.http.wire.reply import refusal
from goqueue.protocols.http.wire.requests import Request

_REMEMBERED = 1024
# Longer paths are not cached.
_REMEMBERED_CHARS_MAX = 256


class _Way(NamedTuple):
    endpoint: Endpoint
    prefix: str
    variables: Mapping[str, str]


class Switch:
    """All endpoints; each path is also available below the prefix.

    In a path, `{name}` matches one segment; names in `free` match anything, slashes included.
    """

    def __init__(self, endpoints: Sequence[tuple[str, Endpoint]], prefix: str, free: Sequence[str] = ()) -> None:
        self._patterns = [(_pattern(path, free), endpoint) for path, endpoint in endpoints]
        self._prefix = prefix
        self._find_short = lru_cache(_REMEMBERED)(self._find)

    async def answer(self, caller: Caller, request: Request) -> Answer[object]:
        """Answer a request."""
        path = request.path
        way = self._find_short(path) if len(path) <= _REMEMBERED_CHARS_MAX else self._find(path)
        if way is None:
            return refusal(UnknownPath(f"there is no path {path[:200]!r}", hint="see /docs for all paths"), path)
        endpoint, prefix, variables = way
        if request.origin and request.method == "OPTIONS":
            return Answer(None, 204, headers=preflight_headers(endpoint.methods))
        return await endpoint.answer(caller, request, prefix, variables)

    def _find(self, path: str) -> _Way | None:
        below = path.removeprefix(self._prefix)
        for prefix, rest in (("", path), (self._prefix, below if below.startswith("/") else "")):
            for pattern, endpoint in self._patterns:
                match = pattern.fullmatch(rest)
                if match is not None:
                    return _Way(endpoint, prefix, match.groupdict())
        return None


def _pattern(path: str, free: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of a path; the only special character in paths of routes is the dot."""

    def place(name: re.Match[str]) -> str:
        return f"(?P<{name[1]}>{'.*' if name[1] in free else '[^/]+'})"

    return re.compile(re.sub("{([a-z_]+)}", place, path.replace(".", r"\.")), re.DOTALL)
