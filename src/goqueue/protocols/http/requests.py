"""Requests as they arrive: bytes in, whole requests out, and what forbids to read on.

Knows HTTP/1.1 through httptools, and has limits for what a request may hold; refuses to know connections, time and
what is asked for. A request is whole before anybody sees it, so nothing is decided about the half of one.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

import httptools

from goqueue.errors import GoQueueError, MalformedRequest
from goqueue.protocols.http.problems import BodyTooLarge, HeadTooLarge

HEAD_BYTES_MAX = 64 * 1024

Header = tuple[bytes, bytes]


class Request(NamedTuple):
    """One request; names of headers are in small letters. After the reply to the last one, the connection ends."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: list[Header]
    body: bytes
    is_last: bool


class RequestReader:
    """Reads the requests of one connection."""

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._parser = httptools.HttpRequestParser(self)
        self._whole: list[Request] = []
        # Between the first byte of a request and its last.
        self.is_arriving = False
        self.arrived_bytes = 0
        # The client waits to be told that its body is wanted.
        self.is_asked_first = self._asks = False
        self._is_in_head = False
        self._head_bytes = 0
        self._url = b""
        self._headers: list[Header] = []
        self._body: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Take bytes; raises what is wrong with them, after which nothing more can be read."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            (end_of_head,) = upgrade.args
            self._ignore_upgrade(data[end_of_head:])
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, GoQueueError):
                raise error.__context__ from None
            raise MalformedRequest("what arrived is no HTTP request") from None
        if self._is_in_head:
            # Where in the first read a head began is not known, so that one does not count.
            self._head_bytes = 0 if self._head_bytes < 0 else self._head_bytes + len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                raise HeadTooLarge(f"the head of a request has more than {HEAD_BYTES_MAX} bytes")

    def take(self) -> list[Request]:
        """Return the requests that are whole, in order; each of them once."""
        whole, self._whole = self._whole, []
        return whole

    # -- what the parser calls

    def on_message_begin(self) -> None:
        self.is_arriving = self._is_in_head = True
        self.arrived_bytes = 0
        self._asks = False
        self._head_bytes = -1
        self._url = b""
        self._headers = []
        self._body = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._headers.append((name, value))
        # The parser has made sure that it is a number.
        if name == b"content-length" and int(value) > self._body_bytes_max:
            raise self._too_large()
        if name == b"expect" and value.lower() == b"100-continue":
            self._asks = True

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self.is_asked_first = self._asks

    def on_body(self, body: bytes) -> None:
        self.is_asked_first = False
        self.arrived_bytes += len(body)
        if self.arrived_bytes > self._body_bytes_max:
            raise self._too_large()
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        self.is_arriving = self.is_asked_first = False
        url = httptools.parse_url(self._url)
        if url.path is None:
            raise MalformedRequest("the request names no path")
        path = url.path.decode("ascii")
        body = self._body
        self._whole.append(
            Request(
                self._parser.get_method().decode("ascii"),
                unquote(path) if "%" in path else path,
                url.path,
                url.query or b"",
                self._headers,
                body[0] if len(body) == 1 else b"".join(body),
                not self._parser.should_keep_alive() or self._parser.get_http_version() == "1.0",
            )
        )

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read a request again as if it had not asked for another protocol: that is how servers decline.

        Many clients ask every server for HTTP/2. The parser takes what follows for that protocol and is of no use any
        more.
        """
        method = self._parser.get_method()
        if method == b"CONNECT":
            raise MalformedRequest("this is no proxy")
        first = b"%s %s HTTP/%s\r\n" % (method, self._url, self._parser.get_http_version().encode())
        lines = [b"%s: %s\r\n" % header for header in self._headers if header[0] != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self.feed(b"".join([first, *lines, b"\r\n", rest]))

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"the body of a request has more than {self._body_bytes_max} bytes")
