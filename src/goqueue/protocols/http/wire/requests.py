"""Parses requests: bytes in, complete requests out, or the error after which nothing more can be read.

Knows HTTP/1.1 through httptools, and the limits of a request; knows nothing of connections, time and routes. Only
complete requests come out. Trailers after a chunked body are read and ignored.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

import httptools

from goqueue.errors import GoQueueError, MalformedRequest
from goqueue.protocols.http.wire.hosts import HostPolicy
from goqueue.protocols.http.wire.problems import BodyTooLarge, HeadTooLarge, UnsupportedContentEncoding
from goqueue.protocols.wrong_port import BEGIN_BYTES, HTTP, KAFKA, TLS, mismatch, spoken

HEAD_BYTES_MAX = 64 * 1024
CHUNKS_FREE = 1_000
"""How many chunks of a body may have any size."""

CHUNK_BYTES_MIN = 64
"""The minimum average size of the chunks of a body that has more of them: each chunk costs time."""

# The headers that decide whether to read the rest of a request.
_JUDGED = frozenset({b"content-length", b"expect", b"host", b"origin", b"transfer-encoding", b"content-encoding"})

Header = tuple[bytes, bytes]


class Request(NamedTuple):
    """One request; header names are in lower case. `is_last` closes the connection after the reply.

    `origin` is that of a web page of another, allowed origin; empty for all other requests.
    """

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: list[Header]
    body: bytes
    is_last: bool
    origin: bytes = b""


class RequestReader:
    """Reads the requests of one connection."""

    def __init__(self, body_bytes_max: int, hosts: HostPolicy | None = None) -> None:
        self._body_bytes_max = body_bytes_max
        self._hosts = hosts or HostPolicy()
        self._host: bytes | None = None
        # Clients send the same Host with every request, so it is checked once.
        self._accepted_host: bytes | None = None
        self._origin: bytes | None = None
        self._foreign_origin = b""
        self._has_transfer_encoding = False
        self._parser = httptools.HttpRequestParser(self)
        self._whole: list[Request] = []
        # Between the first byte of a request and its last.
        self.is_arriving = False
        self.arrived_bytes = 0
        self._is_in_head = self._is_asked_first = self._has_begun = False
        self._head_bytes = 0
        # Bytes since the body grew last: incomplete headers and chunk sizes must not grow without limit.
        self._other_bytes = 0
        self._url = b""
        self._headers: list[Header] = []
        self._body: bytes | bytearray = b""
        self._content_bytes = 0
        self._chunks = 0

    @property
    def is_asked_first(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends the body."""
        return self._is_asked_first and not self._is_in_head

    @property
    def body_bytes_left(self) -> int:
        """How many bytes of a body are still missing, if known: these are cheap to read."""
        return 0 if self._is_in_head or not self.is_arriving else max(self._content_bytes - self.arrived_bytes, 0)

    def go_on(self) -> None:
        """Note that `100 Continue` was sent."""
        self._is_asked_first = False

    def feed(self, data: bytes | memoryview) -> None:
        """Parse bytes; raise the error that they contain, after which nothing more can be read."""
        before = self.arrived_bytes
        self._other_bytes += len(data)
        try:
            self._parse(memoryview(data))
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, GoQueueError):
                raise error.__context__ from None
            protocol = "" if self._has_begun else spoken(bytes(data[:BEGIN_BYTES]))
            if protocol in {KAFKA, TLS}:
                hint = f"name the {KAFKA} port" if protocol == KAFKA else "use http:// in place of https://"
                raise MalformedRequest(mismatch(protocol, HTTP), hint=hint) from None
            raise MalformedRequest("not an HTTP request") from None
        finally:
            self._has_begun = True
        if self.arrived_bytes != before or not self.is_arriving:
            self._other_bytes = 0
        elif self._other_bytes > HEAD_BYTES_MAX:
            raise _head_too_large()

    def take(self) -> list[Request]:
        """Return each complete request once, in order."""
        whole, self._whole = self._whole, []
        return whole

    def _parse(self, data: memoryview) -> None:
        """Parse bytes, and ignore upgrades to another protocol: that is how a server declines them.

        Many clients offer HTTP/2 to every server. The parser takes what follows for that protocol, so a new parser
        continues without the header.
        """
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                (end_of_head,) = upgrade.args
                data = data[end_of_head:]
            else:
                return
            method = self._parser.get_method()
            if method == b"CONNECT":
                raise MalformedRequest("this server is not a proxy")
            first = b"%s %s HTTP/%s\r\n" % (method, self._url, self._parser.get_http_version().encode())
            lines = [b"%s: %s\r\n" % header for header in self._headers if header[0] != b"upgrade"]
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(b"".join([first, *lines, b"\r\n"]))

    # -- what the parser calls

    def on_message_begin(self) -> None:
        self.is_arriving = self._is_in_head = True
        self.arrived_bytes = 0
        self._is_asked_first = False
        # Where in what was read a head begins is not known, so that does not count.
        self._head_bytes = self._other_bytes = 0
        self._url = b""
        self._headers = []
        self._body = b""
        self._content_bytes = self._chunks = 0
        self._host = self._origin = None
        self._foreign_origin = b""
        self._has_transfer_encoding = False

    def on_url(self, url: bytes) -> None:
        # The endpoint refuses a complete URL that is too long.
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_head:
            return
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES_MAX:
            raise _head_too_large()
        name = name.lower()
        # The parser leaves blanks after a value, which do not belong to it.
        value = value.rstrip(b" \t")
        self._headers.append((name, value))
        if name in _JUDGED:
            self._judge(name, value)

    def _judge(self, name: bytes, value: bytes) -> None:
        """Note a header that decides whether the request is read on, or refuse the request for it."""
        if name == b"host":
            if self._host is not None:
                raise MalformedRequest("the request has two Host headers")
            self._host = value
        elif name == b"content-length":
            # The parser has made sure that it is a number.
            self._content_bytes = int(value)
            if self._content_bytes > self._body_bytes_max:
                raise self._body_too_large()
        elif name == b"expect":
            self._is_asked_first |= value.lower() == b"100-continue"
        elif name == b"origin":
            if self._origin is not None:
                raise MalformedRequest("the request has two Origin headers")
            self._origin = value
        elif name == b"transfer-encoding":
            self._require_chunked(value)
        elif value.strip().lower() != b"identity":
            raise UnsupportedContentEncoding("the body has a Content-Encoding", hint="send it without compression")

    def _require_chunked(self, value: bytes) -> None:
        if value.lower() != b"chunked":
            raise MalformedRequest("the body has a Transfer-Encoding other than chunked")
        self._has_transfer_encoding = True

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        host = self._host
        if host is None or host != self._accepted_host:
            self._require_host(host)
        if not self._url.startswith(b"/"):
            self._require_target_host()
        if self._has_transfer_encoding and self._parser.get_http_version() != "1.1":
            raise MalformedRequest("a request before HTTP/1.1 cannot have a Transfer-Encoding", hint="use HTTP/1.1")
        if self._origin is not None:
            self._foreign_origin = self._hosts.foreign_origin(self._origin, host)

    def _require_host(self, host: bytes | None) -> None:
        if host is not None:
            self._hosts.require_host(host)
            self._accepted_host = host
        elif self._parser.get_http_version() != "1.0":
            # Browsers always send one, so a request of HTTP/1.0 without it comes from no web page.
            raise MalformedRequest("the request has no Host header")

    def _require_target_host(self) -> None:
        """Check the host of a target such as http://HOST/path, which stands above the Host header."""
        try:
            target = httptools.parse_url(self._url)
        except httptools.HttpParserInvalidURLError:
            return  # which the end of the request tells
        if target.host is not None:
            self._hosts.require_host(b"[%s]" % target.host if b":" in target.host else target.host)

    def on_chunk_header(self) -> None:
        if self._chunks > CHUNKS_FREE and self.arrived_bytes < self._chunks * CHUNK_BYTES_MIN:
            raise MalformedRequest(
                f"the body has more than {CHUNKS_FREE} chunks, of less than {CHUNK_BYTES_MIN} bytes on average",
                hint="send larger chunks, or the whole body with a Content-Length",
            )
        self._chunks += 1

    def on_body(self, body: bytes) -> None:
        self._is_asked_first = False
        self.arrived_bytes += len(body)
        if self.arrived_bytes > self._body_bytes_max:
            raise self._body_too_large()
        if not self._body:
            self._body = body
            return
        if not isinstance(self._body, bytearray):
            self._body = bytearray(self._body)
        self._body += body

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        self.is_arriving = self._is_asked_first = False
        url = httptools.parse_url(self._url)
        if url.path is None:
            raise MalformedRequest("the request names no path")
        path = url.path.decode("ascii")
        self._whole.append(
            Request(
                self._parser.get_method().decode("ascii"),
                unquote(path) if "%" in path else path,
                url.path,
                url.query or b"",
                self._headers,
                bytes(self._body),
                not self._parser.should_keep_alive() or self._parser.get_http_version() == "1.0",
                self._foreign_origin,
            )
        )

    def _body_too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"the body of a request has more than {self._body_bytes_max} bytes")


def _head_too_large() -> HeadTooLarge:
    return HeadTooLarge(f"the head of a request has more than {HEAD_BYTES_MAX} bytes")
