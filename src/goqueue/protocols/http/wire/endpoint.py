"""The endpoint of one path: decodes and checks a request, calls the handler of its route, and makes the answer.

This is the edge of HTTP: every error ends here as a problem document, and unexpected ones are reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from goqueue.broker.admission import Caller
from goqueue.errors import GoQueueError, MalformedRequest
from goqueue.model.request_limits import MESSAGES_MAX
from goqueue.protocols.http.calls import JSON, Answer, Context, Services
from goqueue.protocols.http.route import Route
from goqueue.protocols.http.wire.bodies import ITEMS_BEGIN_WITH, require_few_items
from goqueue.protocols.http.wire.hints import malformed_request, suggested_hint
from goqueue.protocols.http.wire.problems import MEDIA_TYPE, MethodNotAllowed, UnsupportedMediaType, unexpected_problem
from goqueue.protocols.http.wire.redaction import is_loopback, without_directory
from goqueue.protocols.http.wire.reply import encoded, refusal
from goqueue.protocols.http.wire.requests import Request
from goqueue.seams.sink import Event, Severity

_QUERY_BYTES_MAX = 8 * 1024
_JSON = JSON.encode()
# A smaller body cannot hold too many items.
_UNSUSPICIOUS_BYTES = 2 * MESSAGES_MAX
# The replacement character for bytes of a path that are not UTF-8.
_UNREADABLE = "\ufffd"


@dataclass(frozen=True, slots=True)
class HttpRequestFailed(Event):
    """A request raised an unexpected error; it was answered with status 500."""

    severity: ClassVar[Severity] = Severity.ERROR
    address: str
    request: str
    error: str


class Endpoint:
    """All routes of one path."""

    def __init__(self, routes: Sequence[Route], services: Services) -> None:
        self._services = services
        self._directory = str(services.broker.core.directory).encode()
        self._by_method = {route.method: route for route in routes}
        if "GET" in self._by_method:
            self._by_method["HEAD"] = self._by_method["GET"]
        self._lists = {route.name: _list_of(route) for route in routes}
        self._decoders = {
            route.name: msgspec.json.Decoder(route.request)
            for route in routes
            if route.has_body and route.request is not None
        }

    @property
    def methods(self) -> Sequence[str]:
        """The methods of this path."""
        return list(self._by_method)

    async def answer(
        self, caller: Caller, request: Request, prefix: str, variables: Mapping[str, str]
    ) -> Answer[object]:
        """Answer a request; `prefix` is what its path begins with, `variables` are the named parts of its path."""
        try:
            route = self._by_method.get(request.method)
            if route is None:
                raise MethodNotAllowed(request.method, self.methods)
            if len(request.body) > _UNSUSPICIOUS_BYTES and (name := self._lists[route.name]):
                await require_few_items(request.body, name, MESSAGES_MAX)
            given = self._read(route, request)
            context = Context(self._services, caller, prefix, variables, request.headers)
            returned = await (route.handle(context) if route.request is None else route.handle(context, given))
            answer = returned if isinstance(returned, Answer) else Answer(returned, route.status, route.media_type)
            # Encoded here, so that what cannot be is answered as an unexpected error.
            return self._told(caller, answer)
        except GoQueueError as error:
            return self._told(caller, refusal(error, request.path, hint=suggested_hint(self._services.broker, error)))
        except Exception as error:  # noqa: BLE001 - the edge of a request: a failure must not affect others
            asked = f"{request.method} {request.path}"
            self._services.broker.core.sink.emit(HttpRequestFailed(caller.address, asked, repr(error)))
            return Answer(unexpected_problem(request.path), 500, MEDIA_TYPE)

    def _told(self, caller: Caller, answer: Answer[object]) -> Answer[object]:
        """Encode an answer; replies to other machines do not contain the path of the data directory."""
        told = encoded(answer)
        if isinstance(told.value, bytes) and self._directory in told.value and not is_loopback(caller.host):
            without_directory(answer.value, self._services.broker.core.directory)
            return encoded(answer)
        return told

    def _read(self, route: Route, request: Request) -> object:
        _require_text(request)
        if route.has_body:
            _require_json(request)
            return self._decode(route, request.body)
        return _query(route, request.query) if route.is_strict else None

    def _decode(self, route: Route, body: bytes) -> object:
        try:
            return self._decoders[route.name].decode(body)
        except msgspec.ValidationError as error:
            raise malformed_request("body", error, route.request) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedRequest(f"the body is not JSON: {error}") from None
        except RecursionError:
            raise MalformedRequest("the body is nested too deeply") from None


def _list_of(route: Route) -> str:
    """Return the field of a route that may be a long list; empty if there is none."""
    fields = () if route.request is None else route.request.__struct_fields__
    return next((name for name in ITEMS_BEGIN_WITH if name in fields), "")


def _require_text(request: Request) -> None:
    """Refuse a path that is not UTF-8: with replacement characters, different names would be equal."""
    if _UNREADABLE in request.path:
        try:
            unquote_to_bytes(request.raw_path).decode()
        except UnicodeDecodeError:
            raise MalformedRequest("the path is not UTF-8") from None


def _require_json(request: Request) -> None:
    """Refuse a body without the media type of JSON.

    Any web page can make a browser send other media types here without a preflight request.
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


def _query(route: Route, query_string: bytes) -> object:
    if not query_string and route.request is None:
        return None
    if len(query_string) > _QUERY_BYTES_MAX:
        raise MalformedRequest(f"the query has {len(query_string)} bytes, and may have at most {_QUERY_BYTES_MAX}")
    try:
        pairs = parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict")
    except ValueError:
        raise MalformedRequest("the query is not UTF-8") from None
    given: dict[str, Any] = dict(pairs)
    if len(given) < len(pairs):
        raise MalformedRequest("the query has a parameter twice")
    if route.request is None:
        raise MalformedRequest(f"this path takes no query, and got {', '.join(map(repr, given))[:200]}")
    try:
        return msgspec.convert(given, route.request, strict=False)
    except msgspec.ValidationError as error:
        raise malformed_request("query", error, route.request) from None
