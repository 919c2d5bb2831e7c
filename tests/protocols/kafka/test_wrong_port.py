"""A client that speaks another protocol than the port that it has reached is told so, and the log names the mistake."""

from __future__ import annotations

import httpx
import pytest

from goqueue.client import BadReply
from goqueue.client.kafka import KafkaData
from goqueue.protocols.connection_limiter import ConnectionsDropped
from goqueue.protocols.wrong_port import HTTP, KAFKA, TLS, http_answer, spoken
from goqueue.testing import Broker, Simulation, simulate
from tests.protocols.http.raw import SimServer as HttpServer
from tests.protocols.http.raw import serving as serving_http
from tests.protocols.kafka.raw import API_VERSIONS, METADATA, frame
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer, serving

HELLO_OF_TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
HELLO_OF_KAFKA = frame(API_VERSIONS, 0, 1, b"")


def reasons(server: SimServer | HttpServer) -> list[str]:
    return [event.reason for event in server.sink.of(ConnectionsDropped)]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_http_on_the_kafka_port_is_told_where_http_is(method: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            client.write(f"{method} /topics HTTP/1.1\r\nHost: broker\r\n\r\n".encode())
            await client.ended()
            head, _, text = bytes(client.received).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert f"content-length: {len(text)}".encode() in head
            assert text == b"This is the Kafka port of GoQueue. HTTP is at http://broker:8080/\n"
            assert reasons(server) == ["it speaks HTTP on the Kafka port"]
            other = await server.client("other")
            await create_topic(other, "t")

    simulate(main, 0)


def test_tls_on_the_kafka_port_is_named_in_the_log() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            client.write(HELLO_OF_TLS)
            await client.ended()
            assert not client.received
            assert reasons(server) == ["it speaks TLS on the Kafka port, which has no TLS"]

    simulate(main, 0)


def test_http_after_kafka_requests_is_no_reply_to_them() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await client.call(METADATA, 12, {"topics": None})
            client.send(METADATA, 12, {"topics": None})
            client.write(b"GET / HTTP/1.1\r\n\r\n")
            await client.ended()
            assert b"HTTP/1.1" not in client.received

    simulate(main, 0)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (HELLO_OF_KAFKA, "it speaks Kafka on the HTTP port"),
        (HELLO_OF_TLS, "it speaks TLS on the HTTP port, which has no TLS"),
        (b"\0\1\2\3", "not an HTTP request"),
    ],
)
def test_other_protocols_on_the_http_port_are_named_in_the_log(sent: bytes, reason: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving_http(simulation) as server:
            client = await server.client()
            client.write(sent)
            reply = await client.reply()
            assert (reply.status, reply.json()["code"]) == (400, "malformed_request")
            assert reasons(server) == [reason]

    simulate(main, 0)


def test_bytes_of_a_body_are_taken_for_no_other_protocol() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving_http(simulation) as server:
            client = await server.client()
            client.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await client.reply()).status == 200
            client.write(HELLO_OF_KAFKA)
            await client.ended()
            assert reasons(server) == ["not an HTTP request"]

    simulate(main, 0)


def test_kafka_client_that_is_given_the_http_port_says_so() -> None:
    with Broker() as broker:
        with pytest.raises(BadReply, match="that is an HTTP port; name the Kafka port"):
            KafkaData(broker.http.removeprefix("http://"))
        text = httpx.get(f"http://{broker.bootstrap}/topics").text
        assert broker.http in text


@pytest.mark.parametrize(
    ("begin", "protocol"),
    [
        (b"GET / HTTP/1.1", HTTP),
        (b"PRI * HTTP/2.0", HTTP),
        (b"GETS", ""),
        (HELLO_OF_KAFKA, KAFKA),
        (HELLO_OF_TLS, TLS),
        (b"", ""),
        (bytes(12), ""),
        (b"\xff" * 12, ""),
    ],
)
def test_first_bytes_tell_the_protocol(begin: bytes, protocol: str) -> None:
    assert spoken(begin) == protocol


def test_answer_names_ipv6_addresses_in_brackets() -> None:
    assert b"http://[::1]:8080/" in http_answer(("::1", 8080))
    assert b"another port" in http_answer(None)
