"""One path: requests are read, checked and handed to their operation; what comes of it is answered.

The edge of the HTTP room: every error ends here as a problem document, and those that nobody expected are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from starlette.types import Receive, Scope, Send

from goqueue.broker.pipeline import Caller
from goqueue.errors import GoQueueError, MalformedRequest
from goqueue.protocols.http.calls import JSON, Answer, Context, Operation, Services
from goqueue.protocols.http.problems import (
    MEDIA_TYPE,
    MethodNotAllowed,
    UnknownPath,
    UnsupportedMediaType,
    problem_of,
    unexpected_problem,
)
from goqueue.seams.sink import Event, Severity

_QUERY_BYTES_MAX = 8 * 1024
# What stands in a path for bytes that are not UTF-8.
_UNREADABLE = "\ufffd"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class HttpRequestFailed(Event):
    """A request met an error that nobody expected; it was answered with status 500."""

    severity: ClassVar[Severity] = Severity.ERROR
    address: str
    request: str
    error: str


class _ClientLeftError(Exception):
    """The client is gone; nobody is there to answer."""


class Endpoint:
    """All operations of one path, as an ASGI application."""

    def __init__(self, operations: Sequence[Operation], services: Services) -> None:
        self._services = services
        self._by_method = {operation.method: operation for operation in operations}
        if "GET" in self._by_method:
            self._by_method["HEAD"] = self._by_method["GET"]
        self._decoders = {
            operation.name: msgspec.json.Decoder(operation.request)
            for operation in operations
            if operation.has_body and operation.request is not None
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._handle(scope, receive)
        except GoQueueError as error:
            answer = _refusal(error, scope["path"])
        except _ClientLeftError:
            return
        except Exception as error:  # noqa: BLE001 - the edge of a request: whatever broke must not touch others
            request = f"{scope['method']} {scope['path']}"
            self._services.broker.sink.emit(HttpRequestFailed(_address(scope), request, repr(error)))
            answer = Answer(unexpected_problem(scope["path"]), 500, MEDIA_TYPE)
        await respond(send, answer)

    async def _handle(self, scope: Scope, receive: Receive) -> Answer:
        operation = self._by_method.get(scope["method"])
        if operation is None:
            raise MethodNotAllowed(scope["method"], list(self._by_method))
        _require_text(scope)
        request: object = None
        if operation.has_body:
            _require_json(scope)
            request = self._decode(operation, await _body(receive))
        elif operation.is_strict:
            request = _query(operation, scope["query_string"])
        context = Context(
            self._services,
            Caller("http", _address(scope)),
            scope.get("root_path", ""),
            scope["path_params"],
            scope["headers"],
        )
        return await operation.handle(context, request)

    def _decode(self, operation: Operation, body: bytes) -> object:
        try:
            return self._decoders[operation.name].decode(body)
        except msgspec.ValidationError as error:
            raise MalformedRequest(f"the body is not as it should be: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedRequest(f"the body is no JSON: {error}") from None
        except RecursionError:
            raise MalformedRequest("the body is nested too deeply") from None


async def answer_unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer what is asked where nothing is offered."""
    del receive
    error = UnknownPath(f"nothing is offered at {scope['path'][:200]!r}", hint="/docs lists what is")
    await respond(send, _refusal(error, scope["path"]))


async def respond(send: Send, answer: Answer) -> None:
    """Send an answer."""
    body = b""
    headers = list(answer.headers)
    if answer.value is not None:
        body = answer.value if isinstance(answer.value, bytes) else _encode(answer.value)
        headers.append((b"content-type", answer.media_type.encode()))
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _refusal(error: GoQueueError, path: str) -> Answer:
    problem = problem_of(error, path)
    headers = []
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.allowed).encode()))
    return Answer(problem, problem.status, MEDIA_TYPE, headers)


def _address(scope: Scope) -> str:
    host, port = scope.get("client") or ("unknown", 0)
    return f"{host}:{port}"


def _require_text(scope: Scope) -> None:
    """Refuse a path that is not UTF-8: what cannot be read became one sign, so different names would be the same."""
    if _UNREADABLE in scope["path"]:
        try:
            unquote_to_bytes(scope["raw_path"]).decode()
        except UnicodeDecodeError:
            raise MalformedRequest("the path is not UTF-8") from None


def _require_json(scope: Scope) -> None:
    """Refuse a body that does not say that it is JSON.

    A web page of anybody can make a browser send any other kind of body here, without being asked.
    """
    for name, value in scope["headers"]:
        if name == b"content-type":
            media_type, _, parameters = value.decode("latin-1").partition(";")
            charset = parameters.strip().lower().removeprefix("charset=").strip('"')
            if media_type.strip().lower() == JSON and charset in {"", "utf-8", "utf8"}:
                return
            break
    raise UnsupportedMediaType("the body must be JSON", hint=f"send it with the header Content-Type: {JSON}")


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _ClientLeftError
        parts.append(event.get("body", b""))
        if not event.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _query(operation: Operation, query_string: bytes) -> object:
    if not query_string and operation.request is None:
        return None
    if len(query_string) > _QUERY_BYTES_MAX:
        raise MalformedRequest(f"the query has {len(query_string)} bytes, at most {_QUERY_BYTES_MAX} are taken")
    try:
        pairs = parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict")
    except ValueError:
        raise MalformedRequest("the query is not UTF-8") from None
    given: dict[str, Any] = dict(pairs)
    if len(given) < len(pairs):
        raise MalformedRequest("a parameter of the query is given twice")
    if operation.request is None:
        raise MalformedRequest(f"the query has {', '.join(map(repr, given))[:200]}, but none is taken here")
    try:
        return msgspec.convert(given, operation.request, strict=False)
    except msgspec.ValidationError as error:
        raise MalformedRequest(f"the query is not as it should be: {error}") from None
