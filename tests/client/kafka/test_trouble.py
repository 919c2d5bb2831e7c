"""Brokers that are not there, are none, say nothing, or end in the middle."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from goqueue.client import Client, NewMessage, messages, topics
from goqueue.client.kafka import KafkaData, NamedOffset, TopicPartition
from goqueue.client.problems import BadReply, RequestTimedOut, ServerUnreachable
from goqueue.errors import NotOffered
from goqueue.testing import ManualClock
from goqueue.testing.broker import Broker
from tests.client.kafka.kit import batch_of, publish, values_of
from tests.client.kafka.servers import listening, read_frame, relayed_broker
from tests.protocols.kafka.process import ServeProcess

METADATA, LIST_OFFSETS, FETCH = 3, 2, 1
VALUES = [b"%d" % number + b"v" * 100 for number in range(2000)]


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_for_the_end(connection: socket.socket) -> None:
    """Read until the other side hangs up, and say nothing."""
    while connection.recv(1000):
        pass


def test_a_wrong_port_is_told_with_all_that_was_tried() -> None:
    first, second = free_port(), free_port()
    with pytest.raises(ServerUnreachable) as caught:
        KafkaData(f"127.0.0.1:{first},127.0.0.1:{second}", connect_timeout_s=0.1)
    for port in (first, second):
        assert f"127.0.0.1:{port} cannot be reached: Connection refused" in str(caught.value)
    assert "goqueue serve" in str(caught.value)


def test_a_host_that_does_not_exist_is_told() -> None:
    with pytest.raises(ServerUnreachable, match=r"nowhere\.invalid:9092 cannot be reached"):
        KafkaData("nowhere.invalid", connect_timeout_s=2)


def test_one_good_address_is_enough(broker: Broker) -> None:
    with listening(wait_for_the_end) as silent:
        bootstrap = f"127.0.0.1:{silent},127.0.0.1:{free_port()},{broker.bootstrap}"
        with KafkaData(bootstrap, connect_timeout_s=3) as data:
            assert data.brokers()


def test_a_silent_server_is_not_waited_for_for_ever() -> None:
    with listening(wait_for_the_end) as silent, pytest.raises(RequestTimedOut, match="did not answer in time"):
        KafkaData(f"127.0.0.1:{silent}", connect_timeout_s=0.2)


def test_an_http_port_is_told_from_a_kafka_port(broker: Broker) -> None:
    with pytest.raises(BadReply, match=r"no Kafka broker.*HTTP/1\.1 .*that is an HTTP port"):
        KafkaData(broker.http.removeprefix("http://"))


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (bytes.fromhex("15030300020228"), "it speaks TLS"),
        (b"\0\0\0\x04\0\0\0\x09", "reply to request 9 came where that to 1 is due"),
        (b"\0\0\0\x09\0\0\0\x01\0\0\xff\xff\xff", "is no Kafka broker: the reply cannot be read"),
        (b"\0\0\0\x0a\0\0\0\x01\0\0\x7f\xff\xff\xff", "2147483647 elements are announced"),
        (b"\xff\xff\xff\xff", "is no Kafka broker"),
        (b"\0\0\0\0", "is no Kafka broker"),
    ],
)
def test_rubbish_is_told_from_a_broker(answer: bytes, what: str) -> None:
    def serve(connection: socket.socket) -> None:
        read_frame(connection)
        connection.sendall(answer)
        wait_for_the_end(connection)

    with listening(serve) as port, pytest.raises(BadReply, match=what):
        KafkaData(f"127.0.0.1:{port}")


def test_a_broker_that_lacks_something_is_refused() -> None:
    def serve(connection: socket.socket) -> None:
        read_frame(connection)
        # No error, and one request: Produce, versions 0 to 7.
        connection.sendall(b"\0\0\0\x10" + b"\0\0\0\x01" + b"\0\0" + b"\0\0\0\x01" + b"\0\0\0\0\0\x07")
        wait_for_the_end(connection)

    with listening(serve) as port, pytest.raises(NotOffered, match="lacks PRODUCE, FETCH"):
        KafkaData(f"127.0.0.1:{port}")


def test_a_broker_that_falls_silent_is_given_up() -> None:
    place = TopicPartition("orders", 0)
    with relayed_broker("orders") as relay, KafkaData(relay.bootstrap, timeout_s=3) as data:
        data.offsets([place], NamedOffset.LATEST)
        relay.is_silent = True
        with pytest.raises(RequestTimedOut, match="did not answer in time"):
            data.offsets([place], NamedOffset.LATEST)
        relay.is_silent = False
        assert data.offsets([place], NamedOffset.LATEST)[place].offset == 0


def test_an_address_that_a_broker_names_in_vain_is_told() -> None:
    with Broker(advertised_kafka_port=free_port()) as broker:
        publish_by_http(broker.http, "orders")
        with (
            KafkaData(broker.bootstrap, timeout_s=2) as data,
            pytest.raises(ServerUnreachable, match="advertised_host and port have to be reachable from here"),
        ):
            data.fetch(TopicPartition("orders", 0), 0)


def publish_by_http(server: str, topic: str) -> None:
    """Make a topic with one message."""
    with Client(server) as client:
        client.send(topics.create(topic, partitions=1))
        client.send(messages.publish(topic, [NewMessage("first")]))


def test_replies_that_break_off_are_asked_for_again() -> None:
    place = TopicPartition("orders", 0)
    with relayed_broker("orders") as relay, KafkaData(relay.bootstrap) as data:
        publish(relay.bootstrap, "orders", VALUES[:200])
        relay.doomed = [LIST_OFFSETS, METADATA, FETCH, FETCH]
        end = data.offsets([place], NamedOffset.LATEST)[place].offset
        assert end == 200
        found = []
        for fetched in data.read_range(place, 0, end, bytes_max=1):
            found += values_of([fetched])
            if len(found) == 100:
                relay.doomed.append(FETCH)
        assert found == VALUES[:200]
        assert relay.doomed == []


def test_the_time_that_a_caller_takes_does_not_count(broker: Broker, topic: str) -> None:
    place, clock = TopicPartition(topic, 0), ManualClock(now_ms=0)
    with KafkaData(broker.bootstrap, timeout_s=30, clock=clock) as data:
        producer = data.init_producer(topic)
        data.add_partitions(producer, [place])
        with data.publishing(producer) as publishing:
            for number in range(12):
                publishing.send({place: batch_of(producer, [b"%d" % number], number)})
                clock.advance(1000)
        data.commit(producer)
        found = []
        for fetched in data.read_range(place, 0, 13, bytes_max=1):
            found += values_of([fetched])
            clock.advance(1000)
        assert found == [b"%d" % number for number in range(12)]


def test_a_range_goes_on_after_the_broker_was_killed(tmp_path: Path) -> None:
    place = TopicPartition("orders", 0)
    with ServeProcess(tmp_path / "data", "--default-partitions", "1") as broker:
        publish(broker.bootstrap, "orders", VALUES)
        with KafkaData(broker.bootstrap) as data:
            found = []
            for number, fetched in enumerate(data.read_range(place, 0, len(VALUES), bytes_max=1)):
                found += values_of([fetched])
                if number in {20, 60}:
                    broker.kill()
                    broker.start()
            assert found == VALUES


def test_a_transaction_goes_on_after_the_broker_was_killed(tmp_path: Path) -> None:
    place = TopicPartition("orders", 0)
    with ServeProcess(tmp_path / "data", "--default-partitions", "1") as broker:
        publish(broker.bootstrap, "orders", [b"first"])
        with KafkaData(broker.bootstrap) as data:
            producer = data.init_producer("x")
            data.add_partitions(producer, [place])
            with data.publishing(producer) as publishing:
                for number in range(40):
                    publishing.send({place: batch_of(producer, [b"%d" % number], number)})
                    if number in (10, 25):
                        broker.kill()
                        broker.start()
            broker.kill()
            broker.start()
            data.commit(producer)
            end = data.offsets([place], NamedOffset.LATEST)[place].offset
            assert end == 42
            assert values_of(data.read_range(place, 1, end)) == [b"%d" % number for number in range(40)]
