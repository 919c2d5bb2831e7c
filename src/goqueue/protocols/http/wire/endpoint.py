"""One path: requests are read, checked and handed to their operation; what comes of it is answered.

The edge of the HTTP room: every error ends here as a problem document, and those that nobody expected are reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from goqueue.broker.admission import Caller
from goqueue.broker.messages.publish import MESSAGES_MAX
from goqueue.errors import GoQueueError, MalformedRequest
from goqueue.protocols.http.calls import JSON, Answer, Context, Operation, Services
from goqueue.protocols.http.wire.bodies import ITEMS_BEGIN_WITH, require_few_items
from goqueue.protocols.http.wire.choices import shape_hint
from goqueue.protocols.http.wire.problems import MEDIA_TYPE, MethodNotAllowed, UnsupportedMediaType, unexpected_problem
from goqueue.protocols.http.wire.redaction import is_loopback, without_directory
from goqueue.protocols.http.wire.reply import encoded, refusal
from goqueue.protocols.http.wire.requests import Request
from goqueue.protocols.http.wire.suggestions import suggested_hint
from goqueue.seams.sink import Event, Severity

_QUERY_BYTES_MAX = 8 * 1024
_JSON = JSON.encode()
# Fewer bytes cannot hold too many items.
_UNSUSPICIOUS_BYTES = 2 * MESSAGES_MAX
# What stands in a path for bytes that are not UTF-8.
_UNREADABLE = "\ufffd"


@dataclass(frozen=True, slots=True)
class HttpRequestFailed(Event):
    """A request met an error that nobody expected; it was answered with status 500."""

    severity: ClassVar[Severity] = Severity.ERROR
    address: str
    request: str
    error: str


class Endpoint:
    """All operations of one path."""

    def __init__(self, operations: Sequence[Operation], services: Services) -> None:
        self._services = services
        self._directory = str(services.broker.directory).encode()
        self._by_method = {operation.method: operation for operation in operations}
        if "GET" in self._by_method:
            self._by_method["HEAD"] = self._by_method["GET"]
        self._lists = {operation.name: _list_of(operation) for operation in operations}
        self._decoders = {
            operation.name: msgspec.json.Decoder(operation.request)
            for operation in operations
            if operation.has_body and operation.request is not None
        }

    @property
    def methods(self) -> Sequence[str]:
        """The methods that the path takes."""
        return list(self._by_method)

    async def answer(self, caller: Caller, request: Request, prefix: str, variables: Mapping[str, str]) -> Answer:
        """Return what is answered to a request, which has come below a prefix, with these variables in its path."""
        try:
            operation = self._by_method.get(request.method)
            if operation is None:
                raise MethodNotAllowed(request.method, self.methods)
            if len(request.body) > _UNSUSPICIOUS_BYTES and (name := self._lists[operation.name]):
                await require_few_items(request.body, name, MESSAGES_MAX)
            given = self._read(operation, request)
            context = Context(self._services, caller, prefix, variables, request.headers)
            # Here, where it is told if it cannot be.
            return self._told(caller, await operation.handle(context, given))
        except GoQueueError as error:
            return self._told(caller, refusal(error, request.path, hint=suggested_hint(self._services.broker, error)))
        except Exception as error:  # noqa: BLE001 - the edge of a request: whatever broke must not touch others
            asked = f"{request.method} {request.path}"
            self._services.broker.sink.emit(HttpRequestFailed(caller.address, asked, repr(error)))
            return Answer(unexpected_problem(request.path), 500, MEDIA_TYPE)

    def _told(self, caller: Caller, answer: Answer) -> Answer:
        """Return an answer as bytes; other machines are not told where the data directory is."""
        told = encoded(answer)
        if isinstance(told.value, bytes) and self._directory in told.value and not is_loopback(caller.host):
            without_directory(answer.value, self._services.broker.directory)
            return encoded(answer)
        return told

    def _read(self, operation: Operation, request: Request) -> object:
        _require_text(request)
        if operation.has_body:
            _require_json(request)
            return self._decode(operation, request.body)
        return _query(operation, request.query) if operation.is_strict else None

    def _decode(self, operation: Operation, body: bytes) -> object:
        try:
            return self._decoders[operation.name].decode(body)
        except msgspec.ValidationError as error:
            hint = shape_hint(error, operation.request)
            raise MalformedRequest(f"the body is not as it should be: {error}", hint=hint) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedRequest(f"the body is no JSON: {error}") from None
        except RecursionError:
            raise MalformedRequest("the body is nested too deeply") from None


def _list_of(operation: Operation) -> str:
    """Return the list that an operation takes in large numbers; empty if there is none."""
    fields = () if operation.request is None else operation.request.__struct_fields__
    return next((name for name in ITEMS_BEGIN_WITH if name in fields), "")


def _require_text(request: Request) -> None:
    """Refuse a path that is not UTF-8: what cannot be read became one sign, so different names would be the same."""
    if _UNREADABLE in request.path:
        try:
            unquote_to_bytes(request.raw_path).decode()
        except UnicodeDecodeError:
            raise MalformedRequest("the path is not UTF-8") from None


def _require_json(request: Request) -> None:
    """Refuse a body that does not say that it is JSON.

    A web page of anybody can make a browser send any other kind of body here, without being asked.
    """
    for name, value in request.headers:
        if name == b"content-type":
            if value == _JSON:
                return
            media_type, _, parameters = value.decode("latin-1").partition(";")
            charset = parameters.strip().lower().removeprefix("charset=").strip('"')
            if media_type.strip().lower() == JSON and charset in {"", "utf-8", "utf8"}:
                return
            break
    raise UnsupportedMediaType("the body must be JSON", hint=f"send it with the header Content-Type: {JSON}")


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
        hint = shape_hint(error, operation.request)
        raise MalformedRequest(f"the query is not as it should be: {error}", hint=hint) from None
