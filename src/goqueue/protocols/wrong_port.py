"""Recognises clients that speak another protocol than their port, to tell them so and to log it.

Knows the first bytes of each protocol, and nothing of connections.
"""

from __future__ import annotations

import re
import struct

from goqueue.seams.network import Address

BEGIN_BYTES = 12
"""How many bytes identify a protocol."""

HTTP, KAFKA, TLS = "HTTP", "Kafka", "TLS"

_HTTP = re.compile(rb"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI) ")
# A handshake of TLS 1.0 to 1.3.
_TLS = re.compile(rb"\x16\x03[\x00-\x04]")
_KAFKA = struct.Struct(">ihh")
_KAFKA_BYTES_MAX, _KAFKA_APIS_MAX, _KAFKA_VERSIONS_MAX = 100 * 1024 * 1024, 200, 30


def spoken(begin: bytes) -> str:
    """Return the protocol of the first bytes of a connection; empty if unknown."""
    if _HTTP.match(begin):
        return HTTP
    if _TLS.match(begin):
        return TLS
    if len(begin) >= _KAFKA.size:
        size, api, version = _KAFKA.unpack_from(begin)
        if size <= _KAFKA_BYTES_MAX and size >= _KAFKA.size and 0 <= api <= _KAFKA_APIS_MAX:
            return KAFKA if 0 <= version <= _KAFKA_VERSIONS_MAX else ""
    return ""


def mismatch(protocol: str, port: str) -> str:
    """Return the log text about a client that speaks a protocol on the port of another one."""
    return f"it speaks {protocol} on the {port} port" + (", which has no TLS" if protocol == TLS else "")


def http_answer(http: Address | None) -> bytes:
    """Return the reply to an HTTP client on the Kafka port; `http` is the address of the HTTP port."""
    where = "another port"
    if http is not None:
        host, port = http
        where = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
    text = f"This is the Kafka port of GoQueue. HTTP is at {where}\n".encode()
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff\r\n"
    return head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(text) + text
