"""Which `Host` and `Origin` the HTTP port lets in: a web page cannot reach the broker through DNS rebinding."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from goqueue.protocols.connection_limiter import ConnectionsDropped
from goqueue.protocols.http.wire.endpoint import HttpRequestFailed
from goqueue.runtime.tasks import TaskFailed
from goqueue.testing import Broker, Simulation, simulate
from tests.protocols.http.raw import Closed, Reply, SimServer, serving


def run(test: Callable[[SimServer], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a test against a server of its own."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation, **settings) as server:
            await test(server)
        assert server.sink.of(HttpRequestFailed) == []
        assert server.sink.of(TaskFailed) == []

    simulate(main, 0)


async def send(server: SimServer, method: str, path: str, *headers: str, version: str = "1.1") -> Reply:
    """Send one request with exactly these header lines, on a connection of its own."""
    client = await server.client()
    client.write("\r\n".join([f"{method} {path} HTTP/{version}", *headers, "", ""]).encode("latin-1"))
    try:
        return await client.reply()
    finally:
        client.close()


async def asked_with(server: SimServer, *headers: str, version: str = "1.1") -> tuple[int, str]:
    """Return the status of a request with these header lines, and the code of its error."""
    reply = await send(server, "GET", "/topics", *headers, version=version)
    return reply.status, reply.json().get("code", "")


async def make_topic(server: SimServer) -> None:
    client = await server.client()
    assert (await client.call("POST", "/topics", {"name": "t", "partitions": 1})).status == 201
    client.close()


# -- Host


def test_dns_rebinding_cannot_delete_a_topic() -> None:
    async def test(server: SimServer) -> None:
        await make_topic(server)
        for headers in (
            ["Host: evil.example"],
            ["Host: evil.example:8080", "Origin: http://evil.example:8080"],
            ["Host: localhost:8080", "Origin: http://evil.example"],
        ):
            assert (await send(server, "DELETE", "/topics/t", *headers)).status == 403
        assert (await send(server, "GET", "/topics/t", "Host: localhost:8080")).status == 200

    run(test)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:8080",
        "localhost \t ",
        "localhost.",
        "127.0.0.1:8080",
        "127.9.8.7",
        "[::1]:8080",
        "192.168.1.20:18080",
        "[2001:db8::1]",
        "broker",
        "Broker:80",
        "queue.example.com",
        "QUEUE.example.com:443",
        "kafka.example.com:8080",
    ],
)
def test_own_addresses_and_configured_names_are_served(host: str) -> None:
    async def test(server: SimServer) -> None:
        assert await asked_with(server, f"Host: {host}") == (200, "")

    run(test, http_hosts=("queue.example.com", "other"), advertised_host="kafka.example.com")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil-localhost",
        "xlocalhost:8080",
        "2130706433",
        "0x7f.1",
        "queue.example.com.evil",
    ],
)
def test_foreign_host_is_refused_and_the_setting_is_named(host: str) -> None:
    async def test(server: SimServer) -> None:
        reply = await send(server, "GET", "/topics", f"Host: {host}")
        problem = reply.json()
        assert (reply.status, problem["code"]) == (403, "host_not_allowed")
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.headers["connection"] == "close"
        assert repr(host.partition(":")[0]) in problem["detail"]
        assert "--http-hosts" in problem["hint"]
        assert "GOQUEUE_HTTP_HOSTS" in problem["hint"]

    run(test, http_hosts=("queue.example.com",))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Host:"],
        ["Host: localhost", "Host: localhost"],
        ["Host: localhost", "hOST: evil.example"],
        ["Host: a b"],
        ["Host: user@localhost"],
        ["Host: localhost:x"],
        ["Host: localhost:"],
        ["Host: localhost/"],
        ["Host: localhost, evil.example"],
        ["Host: [::1"],
        ["Host: ::1"],
        ["Host: \xff"],
        ["Host: [nonsense]"],
    ],
)
def test_request_without_exactly_one_good_host_is_malformed(headers: list[str]) -> None:
    async def test(server: SimServer) -> None:
        assert await asked_with(server, *headers) == (400, "malformed_request")

    run(test)


def test_http_1_0_may_leave_out_the_host_but_not_name_a_foreign_one() -> None:
    async def test(server: SimServer) -> None:
        assert await asked_with(server, version="1.0") == (200, "")
        assert await asked_with(server, "Host: localhost", version="1.0") == (200, "")
        assert await asked_with(server, "Host: evil.example", version="1.0") == (403, "host_not_allowed")

    run(test)


def test_http_1_0_with_transfer_encoding_is_refused() -> None:
    async def test(server: SimServer) -> None:
        headers = ["Host: localhost", "Content-Type: application/json", "Transfer-Encoding: chunked"]
        reply = await send(server, "POST", "/topics", *headers, version="1.0")
        assert (reply.status, reply.json()["code"]) == (400, "malformed_request")

    run(test)


@pytest.mark.parametrize("encoding", ["gzip, chunked", "gzip", "identity", "xchunked", "chunked, chunked"])
def test_transfer_encoding_other_than_chunked_is_refused(encoding: str) -> None:
    async def test(server: SimServer) -> None:
        headers = ["Host: localhost", "Content-Type: application/json", f"Transfer-Encoding: {encoding}"]
        reply = await send(server, "POST", "/topics", *headers)
        assert (reply.status, reply.json()["code"]) == (400, "malformed_request")

    run(test)


def test_absolute_target_is_checked_like_the_host() -> None:
    async def test(server: SimServer) -> None:
        refused = await send(server, "GET", "http://evil.example/topics", "Host: localhost")
        assert (refused.status, refused.json()["code"]) == (403, "host_not_allowed")
        assert (await send(server, "GET", "http://localhost:8080/topics", "Host: localhost:8080")).status == 200
        assert (await send(server, "GET", "http://[::1]:8080/topics", "Host: [::1]:8080")).status == 200

    run(test)


def test_star_turns_the_check_of_hosts_off() -> None:
    async def test(server: SimServer) -> None:
        assert await asked_with(server, "Host: anything.example") == (200, "")
        assert await asked_with(server) == (400, "malformed_request")
        foreign = await asked_with(server, "Host: anything.example", "Origin: http://evil.example")
        assert foreign == (403, "origin_not_allowed")

    run(test, http_hosts=("*",))


def test_each_request_of_a_connection_is_checked() -> None:
    async def test(server: SimServer) -> None:
        client = await server.client()
        for _ in range(3):
            client.write(b"GET /livez HTTP/1.1\r\nHost: localhost:8080\r\n\r\n")
            assert (await client.reply()).status == 200
        client.write(b"GET /livez HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://evil.example\r\n\r\n")
        assert (await client.reply()).status == 403
        with pytest.raises(Closed):
            await client.reply()

    run(test)


def test_foreign_host_is_refused_before_its_body_is_read() -> None:
    async def test(server: SimServer) -> None:
        client = await server.client()
        client.write(b"POST /topics HTTP/1.1\r\nHost: evil.example\r\ncontent-length: 1000000\r\n\r\n")
        assert (await client.reply()).status == 403
        client.write(b"POST /topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await client.ended()

    run(test)


def test_many_foreign_hosts_are_one_reason_of_the_metric() -> None:
    async def test(server: SimServer) -> None:
        for number in range(5):
            await asked_with(server, f"Host: evil-{number}.example")
        assert list(server.server.limiter.dropped.items()) == [("the Host of a request is not allowed", 5)]
        assert "'evil-0.example'" in server.sink.of(ConnectionsDropped)[0].detail

    run(test)


def test_broker_on_all_addresses_serves_addresses_and_the_name_of_its_machine() -> None:
    """A container listens on 0.0.0.0 and is reached by its address, through a port of its host, or by its name."""
    with Broker(host="0.0.0.0", insecure=True) as broker:
        port = broker.http.rpartition(":")[2]
        url = f"http://127.0.0.1:{port}/topics"
        for host in ("127.0.0.1", "172.17.0.2:8080", "localhost:18080", socket.gethostname()):
            assert httpx.get(url, headers={"host": host}).status_code == 200
        assert httpx.get(url, headers={"host": "evil.example"}).json()["code"] == "host_not_allowed"


def test_error_of_a_client_names_the_setting() -> None:
    with Broker(http_hosts=("queue.example.com",)) as broker:
        headers = {"host": "queue.example.com", "origin": "http://evil.example"}
        assert "--http-origins" in httpx.get(f"{broker.http}/topics", headers=headers).json()["hint"]
        assert httpx.get(f"{broker.http}/topics", headers={"host": "queue.example.com"}).status_code == 200


# -- Origin


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("LOCALHOST:8080", "http://localhost:8080"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("queue.example.com", "https://queue.example.com"),
    ],
)
def test_page_of_the_broker_itself_may_call_it(host: str, origin: str) -> None:
    async def test(server: SimServer) -> None:
        reply = await send(server, "GET", "/topics", f"Host: {host}", f"Origin: {origin}")
        assert reply.status == 200
        assert not any(name.startswith("access-control") for name in reply.headers)

    run(test, http_hosts=("queue.example.com",))


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8080",
        "https://app.example.com:444",
        "http://app.example.com",
        "https://app.example.com.evil",
        "null",
        "",
        "localhost:8080",
        "chrome-extension://abcdef",
        "http://localhost:8080 http://localhost:8080",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_foreign_origin_is_refused_and_the_setting_is_named(origin: str, method: str) -> None:
    async def test(server: SimServer) -> None:
        reply = await send(server, method, "/topics", "Host: localhost:8080", f"Origin: {origin}")
        problem = json.loads(reply.body)
        assert (reply.status, problem["code"]) == (403, "origin_not_allowed")
        assert "--http-origins" in problem["hint"]
        assert not any(name.startswith("access-control") for name in reply.headers)

    run(test, http_origins=("https://app.example.com",))


def test_two_origins_are_malformed() -> None:
    async def test(server: SimServer) -> None:
        both = ["Origin: http://localhost:8080"] * 2
        assert await asked_with(server, "Host: localhost:8080", *both) == (400, "malformed_request")

    run(test)


def test_preflight_is_answered_without_cors_headers_unless_origins_are_configured() -> None:
    async def test(server: SimServer) -> None:
        asks = "Access-Control-Request-Method: DELETE"
        own = await send(server, "OPTIONS", "/topics/t", "Host: localhost", "Origin: http://localhost", asks)
        assert (own.status, own.headers["allow"]) == (405, "GET, PATCH, DELETE, HEAD")
        foreign = await send(server, "OPTIONS", "/topics/t", "Host: localhost", "Origin: http://evil.example", asks)
        assert foreign.status == 403
        for reply in (own, foreign):
            assert not any(name.startswith("access-control") for name in reply.headers)

    run(test)


def test_configured_origin_gets_cors_headers() -> None:
    origin = "https://app.example.com"

    async def test(server: SimServer) -> None:
        client = await server.client()
        client.write(
            b"OPTIONS /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nOrigin: HTTPS://App.example.com\r\n"
            b"Access-Control-Request-Method: PATCH\r\nAccess-Control-Request-Headers: content-type\r\n\r\n"
        )
        preflight = await client.reply()
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == "HTTPS://App.example.com"
        assert preflight.headers["access-control-allow-methods"] == "GET, PATCH, DELETE, HEAD"
        assert preflight.headers["access-control-allow-headers"] == "content-type"
        assert preflight.headers["access-control-max-age"] == "600"
        assert preflight.headers["vary"] == "origin"
        for path, status in (("/topics", 200), ("/nope", 404), ("/topics/t", 404)):
            client.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\r\n".encode())
            reply = await client.reply()
            assert (reply.status, reply.headers["access-control-allow-origin"]) == (status, origin)
            assert reply.headers["vary"] == "origin"
            assert "access-control-allow-credentials" not in reply.headers
        client.write(b"OPTIONS /nope HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example.com\r\n\r\n")
        assert (await client.reply()).status == 404
        client.write(b"GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert "access-control-allow-origin" not in (await client.reply()).headers

    run(test, http_origins=(origin,))


def test_star_allows_every_origin_but_no_foreign_host() -> None:
    async def test(server: SimServer) -> None:
        reply = await send(server, "GET", "/topics", "Host: localhost", "Origin: http://any.example")
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "http://any.example")
        assert (await send(server, "GET", "/topics", "Host: localhost", "Origin: null")).status == 200
        refused = await asked_with(server, "Host: any.example", "Origin: http://any.example")
        assert refused == (403, "host_not_allowed")

    run(test, http_origins=("*",))


# -- Content-Encoding


@pytest.mark.parametrize("coding", ["gzip", "identity, gzip", "zstd", "x"])
def test_content_encoding_that_is_not_understood_is_refused(coding: str) -> None:
    async def test(server: SimServer) -> None:
        client = await server.client()
        head = f"POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {coding}\r\n"
        client.write(f"{head}Content-Type: application/json\r\nContent-Length: 12\r\n\r\n".encode() + b'{"name":"t"}')
        reply = await client.reply()
        assert (reply.status, reply.json()["code"]) == (415, "unsupported_content_encoding")
        assert reply.headers["accept-encoding"] == "identity"

    run(test)


def test_content_encoding_identity_is_no_encoding() -> None:
    async def test(server: SimServer) -> None:
        client = await server.client()
        body = {"name": "t", "partitions": 1}
        assert (await client.call("POST", "/topics", body, **{"content-encoding": "Identity"})).status == 201

    run(test)
