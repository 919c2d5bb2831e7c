"""Checks `Host` and `Origin` of requests: protection against DNS rebinding and foreign web pages.

There is no authentication, so a web page that reaches the port could do everything. A page either points its own name
to the broker's address (DNS rebinding) and sends that name as `Host`, or it calls the broker's address and sends its
own `Origin`. So only listed names are served. An IP address as `Host` is always served: no DNS server decides where a
browser connects for it.

| request has                                    | outcome                                        |
|------------------------------------------------|------------------------------------------------|
| no `Host` (HTTP/1.1), two, or a malformed one  | 400 `malformed_request`                        |
| an IP address or a listed name, with any port  | served                                         |
| another name                                   | 403 `host_not_allowed`                         |
| no `Origin`, or the host and port of `Host`    | served without CORS headers                    |
| a configured `Origin`                          | served with CORS headers                       |
| another `Origin`                               | 403 `origin_not_allowed`                       |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_address

from goqueue.errors import Invalid, MalformedRequest
from goqueue.model.units import quoted

ANY = "*"
"""Allows every host, or every origin."""

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(rf"(?P<scheme>https?)://{_HOST.pattern}", re.IGNORECASE)
_DEFAULT_PORTS = {"http": "80", "https": "443"}
# Browsers repeat a preflight request after this time.
_PREFLIGHT_AGE_S = 600


class HostNotAllowed(Invalid):
    """The Host of the request is not an allowed name of this broker."""

    code = "host_not_allowed"


class OriginNotAllowed(Invalid):
    """The request comes from a web page of another origin."""

    code = "origin_not_allowed"


class HostPolicy:
    """The names that are served, and the origins whose pages may call; either may be `ANY`."""

    def __init__(self, names: Iterable[str] = (ANY,), origins: Iterable[str] = ()) -> None:
        allowed = {name.lower().rstrip(".") for name in names if name}
        self._is_any_host = ANY in allowed
        self._names = allowed
        self._is_any_origin = ANY in origins
        self._origins = {_normal_origin(origin) for origin in origins}

    def require_host(self, host: bytes) -> None:
        """Raise HostNotAllowed if this `Host` is not served, MalformedRequest if it is invalid."""
        text = host.decode("latin-1")
        parts = _HOST.fullmatch(text)
        if parts is None:
            raise MalformedRequest("the Host header is not a host name or an IP address, with an optional port")
        name = parts["name"]
        is_bracketed = name.startswith("[")
        if _is_address(name[1:-1] if is_bracketed else name, is_bracketed=is_bracketed):
            return
        if is_bracketed:
            raise MalformedRequest("the brackets in the Host header do not contain an IPv6 address")
        if not self._is_any_host and name.lower().rstrip(".") not in self._names:
            raise HostNotAllowed(
                f"the Host {quoted(name)} is not allowed",
                hint="use an IP address or localhost, or start the broker with this name in --http-hosts "
                "(GOQUEUE_HTTP_HOSTS); '*' allows every name",
            )

    def foreign_origin(self, origin: bytes, host: bytes | None) -> bytes:
        """Return an `Origin` that gets CORS headers, or nothing if the page is the broker's own.

        Raise OriginNotAllowed if it is neither configured nor that of `host`.
        """
        text = origin.decode("latin-1")
        normal = _normal_origin(text)
        if normal and host is not None and normal == _own_origin(normal, host.decode("latin-1")):
            return b""
        if self._is_any_origin or (normal and normal in self._origins):
            return origin
        raise OriginNotAllowed(
            f"a web page of the origin {quoted(text)} may not call this broker",
            hint="start the broker with this origin in --http-origins (GOQUEUE_HTTP_ORIGINS) to allow it",
        )


def cors_headers(origin: bytes) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers that let a page of a configured origin read a reply."""
    return [(b"access-control-allow-origin", origin), (b"vary", b"origin")]


def preflight_headers(methods: Sequence[str]) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers that tell a browser which requests pages of a configured origin may send."""
    return [
        (b"access-control-allow-methods", ", ".join(methods).encode()),
        (b"access-control-allow-headers", b"content-type"),
        (b"access-control-max-age", b"%d" % _PREFLIGHT_AGE_S),
    ]


def _is_address(text: str, *, is_bracketed: bool) -> bool:
    try:
        return (ip_address(text).version == 6) == is_bracketed
    except ValueError:
        return False


def _own_origin(origin: str, host: str) -> str:
    """Return the origin of pages of `host`, read with the scheme of `origin`: a proxy may speak TLS for the broker."""
    return _normal_origin(f"{origin.partition('://')[0]}://{host}")


def _normal_origin(origin: str) -> str:
    """Return an origin in lower case without the default port; empty if it is invalid."""
    parts = _ORIGIN.fullmatch(origin)
    if parts is None:
        return ""
    scheme, port = parts["scheme"].lower(), parts["port"]
    place = parts["name"].lower().rstrip(".")
    return f"{scheme}://{place}" if port in {None, _DEFAULT_PORTS[scheme]} else f"{scheme}://{place}:{port}"
