"""`goqueue serve` as a process: it starts, owns its directory, stops in order, and bears with bad company."""

from __future__ import annotations

import resource
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psutil  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Producer

from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.process import WAIT_S, ServeProcess, raw
from tests.protocols.kafka.raw import FETCH, METADATA, PRODUCE
from tests.protocols.kafka.requests import fetch, fetched, produce, produced
from tests.unit.log.log_kit import batch

AUTO_CREATE: Plain = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServeProcess]:
    """A broker that has a topic `t`."""
    with ServeProcess(tmp_path / "data", "--connections-max", "20000", "--first-byte-timeout-ms", "5m") as process:
        with raw(process.port) as connection:
            connection.call(METADATA, 12, AUTO_CREATE)
        yield process


def publish_and_wait(bootstrap: str, count: int) -> None:
    """Publish with a client that others wrote; every record must be acknowledged."""
    told: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "message.timeout.ms": 30_000})
    for number in range(count):
        producer.produce("t", b"%d" % number, on_delivery=lambda error, message: told.append(error))
        producer.poll(0)
    assert producer.flush(30) == 0
    assert told == [None] * count


def test_sigterm_answers_who_waits_and_exits_with_0(broker: ServeProcess) -> None:
    with raw(broker.port) as reader, raw(broker.port) as writer:
        writer.call(PRODUCE, 9, produce("t", batch(b"x")))
        reader.send(FETCH, 11, fetch("t", 1, wait_ms=60_000))
        # The reader's request is under way once a later one has been answered.
        writer.call(METADATA, 12, {"topics": []})
        writer.send(PRODUCE, 9, produce("t", batch(b"y")))
        assert fetched(reader.reply(FETCH, 11))["error_code"] == 0
        reader.send(FETCH, 11, fetch("t", 2, wait_ms=60_000))
        assert produced(writer.reply(PRODUCE, 9))["base_offset"] == 1
        writer.call(METADATA, 12, {"topics": []})
        assert broker.terminate() == 0
        assert fetched(reader.reply(FETCH, 11))["error_code"] == 0
        assert reader.is_ended()
        assert writer.is_ended()


def test_a_second_process_on_the_same_directory_is_refused(broker: ServeProcess) -> None:
    second = subprocess.run(
        ServeProcess(broker.data_dir).command(), capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    assert second.returncode == 1
    assert "in use" in second.stderr
    assert "Traceback" not in second.stderr
    publish_and_wait(broker.bootstrap, 10)


def test_the_directory_is_free_after_a_kill(broker: ServeProcess) -> None:
    broker.kill()
    broker.start()
    publish_and_wait(broker.bootstrap, 10)


def test_an_address_that_others_can_reach_is_refused_unless_asked_for(tmp_path: Path) -> None:
    command = ServeProcess(tmp_path / "data", "--host", "0.0.0.0").command()
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert refused.returncode == 2
    assert "insecure" in refused.stderr
    with ServeProcess(tmp_path / "data", "--host", "0.0.0.0", "--insecure") as process, raw(process.port) as client:
        assert client.call(METADATA, 12, {"topics": []})["brokers"][0]["host"] == "127.0.0.1"


def test_a_port_that_is_taken_is_told_in_a_sentence(broker: ServeProcess, tmp_path: Path) -> None:
    command = ServeProcess(tmp_path / "other", kafka_port=broker.port).command()
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert refused.returncode == 1
    assert str(broker.port) in refused.stderr
    assert "Traceback" not in refused.stderr


def test_ten_thousand_silent_connections_disturb_nobody(broker: ServeProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 10_000
    if hard < count + 1000:
        count = max(0, hard - 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    process = psutil.Process(broker.process.pid)
    publish_and_wait(broker.bootstrap, 50)
    before = process.memory_info().rss
    silent: list[socket.socket] = []
    try:
        for number in range(count):
            silent.append(socket.create_connection(("127.0.0.1", broker.port), timeout=WAIT_S))
            if number % 1000 == 999:
                publish_and_wait(broker.bootstrap, 5)
        publish_and_wait(broker.bootstrap, 50)
        grown = process.memory_info().rss - before
        assert grown < count * 10_000 + 20_000_000
    finally:
        for each in silent:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    publish_and_wait(broker.bootstrap, 50)
    assert len(broker.reports().splitlines()) < 50


def test_a_thousand_frames_that_never_come_cost_little(broker: ServeProcess) -> None:
    process = psutil.Process(broker.process.pid)
    publish_and_wait(broker.bootstrap, 50)
    before = process.memory_info().rss
    halves = [socket.create_connection(("127.0.0.1", broker.port), timeout=WAIT_S) for _ in range(800)]
    try:
        for each in halves:
            each.sendall(b"\x05\x00\x00\x00half a frame")
        publish_and_wait(broker.bootstrap, 50)
        assert process.memory_info().rss - before < 50_000_000
    finally:
        for each in halves:
            each.close()


def test_garbage_disturbs_nobody(broker: ServeProcess) -> None:
    random = Random(7)
    for _ in range(200):
        with raw(broker.port) as connection:
            size = random.randrange(200)
            head = random.choice([b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", size.to_bytes(4, "big")])
            connection.write(head + random.randbytes(size))
    publish_and_wait(broker.bootstrap, 100)
    assert broker.process.poll() is None
    reports = broker.reports()
    assert "Traceback" not in reports
    assert len(reports.splitlines()) < 60


def test_it_is_ready_soon(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data") as process, raw(process.port) as client:
        assert client.call(METADATA, 12, {"topics": []})["topics"] == []
        assert process.terminate() == 0
    assert any((tmp_path / "data").iterdir())
