"""The client against a real broker: every call and every error, sync and async."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from goqueue import __version__
from goqueue.client import (
    Acks,
    AsyncClient,
    BadReply,
    Call,
    Client,
    NewMessage,
    Patience,
    Published,
    RequestTimedOut,
    ServerUnreachable,
    messages,
    server,
    topics,
)
from goqueue.client.calls import reading
from goqueue.client.client import check_server
from goqueue.errors import (
    Conflict,
    GoQueueError,
    Invalid,
    InvalidPartitions,
    InvalidTopicName,
    InvalidTopicSettings,
    MalformedRequest,
    NotFound,
    NotOffered,
    OffsetOutOfRange,
    TooLarge,
    TopicExists,
    TopicProtected,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.testing.broker import Broker

Send = Callable[[Call[Any]], Any]
ONCE = Patience(attempts=1)


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest, goqueue_session_broker: Broker) -> Iterator[Send]:
    """Send one call, with either client."""
    if request.param == "sync":
        with Client(goqueue_session_broker.http) as client:
            yield client.send
        return

    async def exchange(call: Call[Any]) -> Any:
        async with AsyncClient(goqueue_session_broker.http) as client:
            return await client.send(call)

    yield lambda call: asyncio.run(exchange(call))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


def test_a_topic_is_made_described_changed_and_deleted(send: Send, topic: str) -> None:
    made = send(topics.create(topic, partitions=2, config={"retention.ms": "1000"}))
    assert (made.name, made.partitions, made.config, made.is_internal) == (topic, 2, {"retention.ms": "1000"}, False)
    assert topic in [each.name for each in send(topics.list_all())]
    described = send(topics.describe(topic))
    assert {each.name: each.source for each in described.settings}["retention.ms"] == "topic"
    assert [each.partition for each in send(topics.partitions(topic))] == [0, 1]
    changed = send(topics.alter(topic, partitions=3, config={"retention.ms": None, "segment.ms": "5000"}))
    assert (changed.partitions, changed.config) == (3, {"segment.ms": "5000"})
    assert send(topics.delete(topic)) is None
    with pytest.raises(UnknownTopic):
        send(topics.describe(topic))


def test_messages_come_back_as_they_were_published(send: Send, topic: str) -> None:
    batch = [
        NewMessage("text", key="k", headers=[("a", "1"), ("a", b"\xff"), ("b", None)], partition=1, timestamp=1000),
        NewMessage(b"\x00\xff", key=b"\xfe", partition=1),
        NewMessage(None, key="k", partition=1),
        NewMessage("", key="", partition=1),
        NewMessage('"quoted" \\ \n \u2603 \x00', partition=1),
    ]
    send(topics.create(topic, config={"retention.ms": "-1"}))
    fates = send(messages.publish(topic, batch))
    assert [(each.partition, each.offset) for each in fates] == [(1, number) for number in range(5)]
    page = send(messages.read(topic, 1))
    assert [(each.key, each.value) for each in page.messages] == [
        (b"k", b"text"),
        (b"\xfe", b"\x00\xff"),
        (b"k", None),
        (b"", b""),
        (None, '"quoted" \\ \n \u2603 \x00'.encode()),
    ]
    first = page.messages[0]
    assert first.headers == (("a", b"1"), ("a", b"\xff"), ("b", None))
    assert (first.topic, first.partition, first.offset, first.timestamp) == (topic, 1, 0, 1000)
    assert (page.next_offset, page.start_offset, page.end_offset) == (5, 0, 5)


def test_reading_begins_at_an_offset_or_a_time_and_ends_at_a_limit(send: Send, topic: str) -> None:
    send(topics.create(topic, config={"retention.ms": "-1"}))
    send(messages.publish(topic, [NewMessage(str(n), partition=0, timestamp=1000 * n) for n in range(6)]))

    def values(**options: Any) -> list[bytes | None]:
        return [each.value for each in send(messages.read(topic, 0, **options)).messages]

    assert values(offset=4) == [b"4", b"5"]
    assert values(timestamp_ms=2500) == [b"3", b"4", b"5"]
    assert values(limit=2) == [b"0", b"1"]
    assert values(offset=1, bytes_max=2) == [b"1", b"2"]
    assert values(offset=6, wait_s=0.01) == []


def test_a_read_waits_for_a_message(goqueue_session_broker: Broker, topic: str) -> None:
    async def main() -> None:
        async with AsyncClient(goqueue_session_broker.http) as client, asyncio.timeout(30):
            await client.send(topics.create(topic))
            reading = asyncio.create_task(client.send(messages.read(topic, 0, offset=0, wait_s=60)))
            await client.send(messages.publish(topic, [NewMessage("one", partition=0)]))
            assert [each.value for each in (await reading).messages] == [b"one"]

    asyncio.run(main())


def test_the_fate_of_each_message_is_told(send: Send, topic: str) -> None:
    batch = [NewMessage("good"), NewMessage("bad", partition=99), NewMessage("large", key="k" * 70_000)]
    good, bad, large = send(messages.publish(topic, batch))
    assert isinstance(good, Published)
    assert isinstance(bad, UnknownPartition)
    assert isinstance(large, TooLarge)
    only, later = send(messages.publish(topic, [NewMessage("bad", partition=99), b'{"value": 1, "delay": "5s"}']))
    assert isinstance(only, UnknownPartition)
    assert isinstance(later, NotOffered)


@pytest.mark.parametrize("acks", Acks)
def test_messages_can_be_published_with_any_acks(send: Send, topic: str, acks: Acks) -> None:
    (fate,) = send(messages.publish(topic, [NewMessage("one", partition=0)], acks=acks))
    assert isinstance(fate, Published)
    page = send(messages.read(topic, 0, offset=0, wait_s=30))
    assert [each.value for each in page.messages] == [b"one"]


def test_the_broker_says_who_and_how_it_is(send: Send, goqueue_session_broker: Broker) -> None:
    version = send(server.version())
    assert (version.name, version.version, version.node_id) == ("goqueue", __version__, 1)
    assert version.cluster_id
    greeting = send(server.greet())
    assert greeting.version == version
    assert greeting.time is not None
    health = send(server.health())
    assert health.status == "ok"
    assert {check.status for check in health.checks} == {"ok"}
    assert send(server.readiness()) == health


CREATE = topics.create("errors-exists")
ERRORS: list[tuple[Call[Any], type[GoQueueError]]] = [
    (CREATE, TopicExists),
    (topics.create("a b"), InvalidTopicName),
    (topics.create("__mine"), TopicProtected),
    (topics.create("errors-1", partitions=0), InvalidPartitions),
    (topics.create("errors-1", config={"retention.mss": "1"}), InvalidTopicSettings),
    (topics.describe("errors-absent"), UnknownTopic),
    (topics.partitions("errors-absent"), UnknownTopic),
    (topics.delete("errors-absent"), UnknownTopic),
    (topics.alter("errors-absent", partitions=9), UnknownTopic),
    (topics.alter("errors-exists", partitions=1), InvalidPartitions),
    (topics.alter("errors-exists", config={"segment.bytes": "much"}), InvalidTopicSettings),
    (messages.read("errors-exists", 99), UnknownPartition),
    (messages.read("errors-exists", 0, offset=5), OffsetOutOfRange),
    (messages.read("errors-exists", 0, limit=0), MalformedRequest),
    (messages.read("errors-exists", 0, limit=1_000_000), MalformedRequest),
    (messages.publish("errors-exists", []), MalformedRequest),
    (messages.publish("errors-exists", [b"{"]), MalformedRequest),
    (messages.publish("errors-exists", [b'{"colour": "red"}']), MalformedRequest),
    (messages.publish("__catalog", [NewMessage("x")]), UnknownTopic),
    (Call("GET", "/v1/nothing", reading(dict)), NotFound),
    (Call("PUT", "/v1/topics", reading(dict), body=b"{}"), Invalid),
]


@pytest.mark.parametrize(("call", "kind"), ERRORS, ids=lambda value: getattr(value, "path", "") or value.__name__)
def test_an_error_of_the_broker_is_the_same_error_here(send: Send, call: Call[Any], kind: type[GoQueueError]) -> None:
    with suppress(TopicExists):
        send(CREATE)
    with pytest.raises(GoQueueError) as raised:
        send(call)
    assert type(raised.value) is kind
    assert raised.value.message


def test_an_offset_out_of_range_tells_the_range(send: Send, topic: str) -> None:
    send(messages.publish(topic, [NewMessage("one", partition=0)]))
    with pytest.raises(OffsetOutOfRange) as raised:
        send(messages.read(topic, 0, offset=7))
    assert (raised.value.offset, raised.value.start, raised.value.end) == (7, 0, 1)


def test_a_topic_that_is_not_made_on_demand_is_unknown(topic: str) -> None:
    with Broker(auto_create_topics=False) as broker, Client(broker.http) as client, pytest.raises(UnknownTopic):
        client.send(messages.publish(topic, [NewMessage("one")]))


def test_a_body_that_is_too_large_is_refused_as_such(topic: str) -> None:
    with Broker(http_body_bytes_max=1024) as broker, Client(broker.http) as client, pytest.raises(TooLarge):
        client.send(messages.publish(topic, [NewMessage("x" * 5000)]))


def test_a_broker_that_is_not_there_is_told_with_its_address() -> None:
    with Client("http://127.0.0.1:1", patience=ONCE) as client, pytest.raises(ServerUnreachable) as raised:
        client.send(server.version())
    assert raised.value.message == "nobody answers at http://127.0.0.1:1: Connection refused"


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """Listen as something that answers every request with these bytes and closes; silent if there are none."""
    held = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.recv(65536)
                connection.sendall(reply)
                held.append(connection)
                if reply:
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def test_a_broker_that_does_not_reply_is_given_up_in_time() -> None:
    with answering(b"") as address:
        client = Client(address, timeout_s=0.05, patience=ONCE)
        with client, pytest.raises(RequestTimedOut):
            client.send(server.version())


def test_calls_beyond_the_connections_of_an_async_client_are_given_up_in_time_as_well() -> None:
    async def work(address: str) -> list[object]:
        async with AsyncClient(address, timeout_s=0.2, patience=ONCE) as client:
            calls = [client.send(messages.publish("topic", [NewMessage("one")])) for _ in range(40)]
            return await asyncio.gather(*calls, return_exceptions=True)

    with answering(b"") as address:
        found = asyncio.run(work(address))
    waited = [each for each in found if isinstance(each, ServerUnreachable)]
    assert {type(each) for each in found} == {RequestTimedOut, ServerUnreachable}
    # Those that waited in vain have all done so at the same time, and were not sent.
    assert len(waited) == 32
    assert not any(each.is_sent for each in waited)
    assert "8 other calls" in waited[0].message


@pytest.mark.parametrize("reply", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}"])
def test_what_breaks_off_is_told_as_lost(reply: bytes) -> None:
    with answering(reply) as address:
        client = Client(address, patience=ONCE)
        with client, pytest.raises(ServerUnreachable) as raised:
            client.send(messages.publish("topic", [NewMessage("one")]))
    assert raised.value.is_sent


def test_what_is_no_broker_is_told_apart() -> None:
    with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello") as address:
        client = Client(address)
        with client, pytest.raises(BadReply):
            client.send(server.version())


def test_a_read_is_sent_again_and_a_publish_is_not(topic: str) -> None:
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(4):
                connection, _ = listener.accept()
                seen.append(connection.recv(65536).split(b" ")[0])
                connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Client(address, patience=Patience(attempts=3, first_pause_s=0.001)) as client:
            for call in (server.version(), messages.publish(topic, [NewMessage("one")])):
                with pytest.raises(ServerUnreachable):
                    client.send(call)
        thread.join(30)
    assert seen == [b"GET", b"GET", b"GET", b"POST"]


def test_closing_a_client_ends_its_pauses() -> None:
    patience = Patience(attempts=2, first_pause_s=3600, pause_s_max=3600)
    client = Client("http://127.0.0.1:1", patience=patience)

    def try_in_vain() -> None:
        with suppress(ServerUnreachable, Conflict):
            client.send(server.version())

    thread = threading.Thread(target=try_in_vain, daemon=True)
    thread.start()
    client.close()
    thread.join(30)
    assert not thread.is_alive()

    async def main() -> None:
        client = AsyncClient("http://127.0.0.1:1", patience=patience)
        waiting = asyncio.create_task(client.send(server.version()))
        await asyncio.wait([waiting], timeout=0.01)
        await client.close()
        async with asyncio.timeout(30):
            with pytest.raises((ServerUnreachable, Conflict)):
                await waiting

    asyncio.run(main())


def test_an_address_may_end_with_a_slash_and_have_a_path() -> None:
    assert check_server("http://broker:8080/") == "http://broker:8080"
    assert check_server("https://[::1]:8080/goqueue/") == "https://[::1]:8080/goqueue"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ftp://broker",
        "http://",
        "http://broker:x",
        "http://b:99999",
        "http://b/?x=1",
        "http://ä..b",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Invalid, match="address"):
        Client(address)


def test_an_option_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    unknown: dict[str, Any] = {"concurency": 4}
    with pytest.raises(TypeError, match="'concurency' is no option of clients; there are timeout_s, patience"):
        Client(**unknown)
    for client in (Client(), AsyncClient()):
        with pytest.raises(
            TypeError,
            match=r"'concurency' is no option of workers; did you mean 'concurrency'.; there are concurrency, .*, sink",
        ):
            client.worker("billing", "orders", print, **unknown)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="'concurency' is no option of consumers; there are client_id"):
            client.consumer("billing", **unknown)
