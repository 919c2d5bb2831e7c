"""The programs in examples/ do what they say, each against the same broker, as a reader would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from goqueue.client import Client, NewMessage, messages, queues
from goqueue.testing import Broker
from tests.clients.installed import CURL, is_installed, without

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS_MAX = 120


def environment(broker: Broker) -> Mapping[str, str]:
    return {**os.environ, "GOQUEUE_SERVER": broker.http, "GOQUEUE_BOOTSTRAP": broker.bootstrap}


def printed_by(broker: Broker, *command: str) -> list[str]:
    """Run a program to its end and return its lines."""
    ended = subprocess.run(
        command, env=environment(broker), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()


def python(broker: Broker, name: str) -> list[str]:
    return printed_by(broker, sys.executable, "-W", "error", str(EXAMPLES / name))


def test_kafka_client(goqueue_session_broker: Broker) -> None:
    assert sorted(python(goqueue_session_broker, "kafka_client.py")) == [
        f"b'customer-{number}' b'payment {number}'" for number in range(3)
    ]


def test_stream_consumer(goqueue_session_broker: Broker) -> None:
    lines = python(goqueue_session_broker, "stream_consumer.py")
    assert sorted(lines) == [f"orders b'order {number}'" for number in range(3)]


def test_queue_worker(goqueue_session_broker: Broker) -> None:
    with Client(goqueue_session_broker.http) as client:
        mails = [NewMessage(value, partition=0) for value in ("ada@example.com", "busy@example.com", None)]
        client.send(messages.publish("mails", mails))
        command = [sys.executable, "-W", "error", str(EXAMPLES / "queue_worker.py")]
        with subprocess.Popen(
            command, env=environment(goqueue_session_broker), stdout=subprocess.PIPE, text=True
        ) as worker:
            assert worker.stdout is not None
            assert [worker.stdout.readline() for _ in range(2)] == [
                "sent to ada@example.com\n",
                "sent to busy@example.com\n",
            ]
            worker.terminate()
            assert worker.wait(SECONDS_MAX) == 0
        (dead,) = client.send(queues.receive("triage", "mails.dlq", wait_s=30)).messages
        assert dict(dead.message.headers)["goqueue-dlq-error"] == b"no address"


def test_http(goqueue_session_broker: Broker) -> None:
    if not is_installed(CURL):
        without(CURL)
    published, received, settled = printed_by(goqueue_session_broker, "sh", str(EXAMPLES / "http.sh"))
    assert '"offset":0' in published
    assert '"value":"{\\"amount\\": 12.5}"' in received
    assert '"status":"done"' in settled


def test_dead_letters(goqueue_session_broker: Broker) -> None:
    with Client(goqueue_session_broker.http) as client:
        client.send(messages.publish("refunds", [NewMessage("refund 1")]))
        received = client.send(queues.receive("cashier", "refunds", wait_s=30)).messages
        client.send(queues.reject(*received, reason="no such order"))
        client.send(queues.receive("triage", "refunds.dlq", wait_s=30))
    assert python(goqueue_session_broker, "dead_letters.py") == [
        "b'refund 1' rejected no such order",
        "to move: 1",
        "done 1",
    ]


def test_exactly_once(goqueue_session_broker: Broker) -> None:
    billed = python(goqueue_session_broker, "exactly_once.py")
    assert sum(int(line.split()[1]) for line in billed) == 2


def test_pytest_fixture() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        str(EXAMPLES / "test_with_fixture.py"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_file()))
def test_every_example_is_run_by_a_test(name: str) -> None:
    tests = [Path(__file__), Path(__file__).parents[1] / "spark" / "test_examples.py"]
    assert any(f'"{name}"' in path.read_text("utf-8") for path in tests)
