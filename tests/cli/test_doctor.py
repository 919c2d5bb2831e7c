"""`goqueue doctor`: each thing that users trip over is found, and said what to do about."""

from __future__ import annotations

import http.server
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from goqueue.testing.broker import Broker
from tests.cli.command import Command, Row


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def examine(server: str, *options: object, kafka: str = "", data_dir: Path | None = None) -> tuple[dict[str, Row], int]:
    """Return the findings by check, and the exit code."""
    options = (*options, *(["--kafka", kafka] if kafka else []), *(["--data-dir", data_dir] if data_dir else []))
    result = Command(server)("doctor", "--format", "json", *options)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row.pop("kind") for row in rows} == {"finding"}
    return {row["check"]: row for row in rows}, result.exit_code


def test_a_healthy_broker_has_no_failures(broker: Broker) -> None:
    found, code = examine(broker.http, kafka=broker.bootstrap, data_dir=broker.data_dir)
    for check in ("python", "libraries", "settings", "http", "readiness", "clock", "kafka", "advertised", "lock"):
        assert found[check]["verdict"] == "ok", found[check]
    assert broker.bootstrap in str(found["advertised"]["what"])
    assert f"process {os.getpid()}" in str(found["lock"]["what"])
    failures = [row for row in found.values() if row["verdict"] == "failure"]
    assert code == (1 if failures else 0)
    assert {str(row["check"]) for row in failures} <= {"kafka port", "http port", "free space"}


def test_every_problem_has_a_fix(tmp_path: Path) -> None:
    found, code = examine("http://127.0.0.1:1", kafka="127.0.0.1:1", data_dir=tmp_path)
    assert code == 1
    assert found["http"]["verdict"] == found["kafka"]["verdict"] == "failure"
    assert "goqueue serve" in str(found["http"]["fix"])
    for row in found.values():
        assert bool(row["fix"]) is (row["verdict"] in {"warning", "failure"}), row


def test_an_address_that_kafka_clients_cannot_reach_is_explained() -> None:
    with Broker(advertised_host="broker.invalid", advertised_kafka_port=9) as broker:
        found, code = examine(broker.http, kafka=broker.bootstrap)
    assert code == 1
    assert found["kafka"]["verdict"] == "ok"
    assert found["advertised"]["verdict"] == "failure"
    assert "broker.invalid:9" in str(found["advertised"]["what"])
    assert "--advertised-host" in str(found["advertised"]["fix"])


def test_closed_advertised_port_is_explained() -> None:
    with Broker(advertised_host="127.0.0.1", advertised_kafka_port=1) as broker:
        found, _ = examine(broker.http, kafka=broker.bootstrap)
    assert found["advertised"]["verdict"] == "failure"
    assert "Connection refused" in str(found["advertised"]["what"])


@contextmanager
def listening(answer: bytes = b"") -> Iterator[int]:
    """Listen on a port as something that is no broker."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 100, b"\xff" * 100])
def test_server_that_does_not_speak_kafka_is_recognised(broker: Broker, answer: bytes) -> None:
    with listening(answer) as port:
        found, code = examine(broker.http, kafka=f"127.0.0.1:{port}")
    assert code == 1
    assert "does not speak the Kafka protocol" in str(found["kafka"]["what"])


def test_other_server_on_the_http_port_is_recognised() -> None:
    with listening(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello") as port:
        found, _ = examine(f"http://127.0.0.1:{port}")
    assert found["http"]["verdict"] == "failure"
    assert "HTTP port of a GoQueue broker" in str(found["http"]["fix"])


def test_a_port_that_another_program_has_is_found_with_its_process(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    with listening() as port:
        file.write_text(f"kafka_port = {port}\nhttp_port = 0\n")
        found, _ = examine(broker.http, "--config", file, kafka=broker.bootstrap)
    assert found["kafka port"]["verdict"] == "failure"
    assert f"{port} is in use by process {os.getpid()}" in str(found["kafka port"]["what"])
    assert "--kafka-port" in str(found["kafka port"]["fix"])
    assert found["http port"]["verdict"] == "ok"


def test_the_ports_of_the_broker_itself_are_fine(tmp_path: Path) -> None:
    with Broker() as probe:
        kafka, web = (int(address.rpartition(":")[2]) for address in (probe.bootstrap, probe.http))
    file = tmp_path / "goqueue.toml"
    file.write_text(f"kafka_port = {kafka}\nhttp_port = {web}\n")
    found, _ = examine(f"http://127.0.0.1:{web}", "--config", file)
    assert found["kafka port"]["what"] == f"{kafka} is free"
    with Broker(kafka_port=kafka, http_port=web) as broker:
        found, _ = examine(broker.http, "--config", file)
    assert found["kafka"]["verdict"] == "ok"
    assert found["kafka port"]["what"] == f"{kafka} is the broker's"
    assert found["http port"]["what"] == f"{web} is the broker's"


def test_a_data_directory_is_looked_at(tmp_path: Path, broker: Broker) -> None:
    found, _ = examine("http://127.0.0.1:1", data_dir=tmp_path / "new")
    assert "does not exist yet" in str(found["data directory"]["what"])
    found, _ = examine("http://127.0.0.1:1", data_dir=tmp_path)
    assert found["data directory"]["verdict"] == "ok"
    assert "no broker" in str(found["lock"]["what"])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    found, _ = examine("http://127.0.0.1:1", data_dir=tmp_path / "file")
    assert found["data directory"]["verdict"] == "failure"
    found, _ = examine("http://127.0.0.1:1", data_dir=broker.data_dir)
    assert found["lock"]["verdict"] == "warning"
    assert "--server" in str(found["lock"]["fix"])


def test_a_disk_that_is_too_full_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text("[limits]\ndisk_guard_free_fraction = 0.999\n")
    found, _ = examine("http://127.0.0.1:1", "--config", file, data_dir=tmp_path)
    assert found["free space"]["verdict"] == "failure"
    assert "writes are refused" in str(found["free space"]["what"])


def test_mistakes_in_settings_are_a_failure_and_the_broker_is_still_looked_at(tmp_path: Path, broker: Broker) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text("kafka_prot = 1\nhttp_port = 'x'\n")
    found, code = examine(broker.http, "--config", file, kafka=broker.bootstrap)
    assert code == 1
    assert "kafka_prot" in str(found["settings"]["what"])
    assert "http_port" in str(found["settings"]["what"])
    assert found["http"]["verdict"] == "ok"


class _OtherTime(http.server.BaseHTTPRequestHandler):
    """A broker whose clock is wrong by as much as its class says."""

    behind_s = 0.0

    def do_GET(self) -> None:
        body = b'{"name": "goqueue", "version": "0", "status": "ok", "checks": []}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((timestamp or time.time()) - self.behind_s)

    @override
    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("behind_s", "verdict", "words"),
    [(0.0, "ok", "agrees"), (30.0, "warning", " s behind the one here"), (-7200.0, "failure", "ahead of")],
)
def test_a_clock_that_differs_is_found(behind_s: float, verdict: str, words: str) -> None:
    handler = type("Handler", (_OtherTime,), {"behind_s": behind_s})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        found, _ = examine(f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
    assert found["clock"]["verdict"] == verdict, found["clock"]
    assert words in str(found["clock"]["what"])
    assert found["http"]["verdict"] == "warning"
    assert "version" in str(found["http"]["fix"])


def test_broker_on_another_machine_is_recognised() -> None:
    found, _ = examine("http://broker.invalid:8080")
    assert found["this machine"]["verdict"] == "skipped"
    assert "data directory" not in found


@pytest.mark.parametrize("output_format", ["table", "yaml", "json"])
def test_every_format_tells_every_check(broker: Broker, output_format: str) -> None:
    shown = Command(broker.http)("doctor", "--kafka", broker.bootstrap, "--format", output_format).stdout
    for check in ("python", "libraries", "http", "clock", "kafka", "advertised", "data directory", "open files"):
        assert check in shown


@pytest.mark.parametrize("kafka", ["broker", "broker:", "broker:x", ":9092"])
def test_an_address_that_is_none_is_a_mistake_in_the_call(kafka: str) -> None:
    assert Command("http://127.0.0.1:1")("doctor", "--kafka", kafka).exit_code == 2
