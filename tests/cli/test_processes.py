"""The installed command as a process: pipes, signals, a terminal, and a lot of lines."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, installed_environ

LINES = 100_000
DEADLINE_S = 180.0


@contextmanager
def running(server: str, *arguments: object, **streams: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command; whatever happens, it has ended afterwards."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    with subprocess.Popen([INSTALLED, *map(str, arguments)], env=installed_environ(server), **pipes) as process:  # type: ignore[call-overload]
        watchdog = threading.Timer(DEADLINE_S, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


@pytest.fixture
def server(goqueue_session_broker: Broker) -> str:
    return goqueue_session_broker.http


def test_a_hundred_thousand_lines_make_the_round_trip(server: str, topic: str, tmp_path: Path) -> None:
    lines = b"".join(b"line %d of %d\n" % (number, LINES) for number in range(LINES))
    (tmp_path / "lines").write_bytes(lines)
    with running(server, "produce", topic, tmp_path / "lines", "--partition", 0) as producer:
        said, complaints = producer.communicate()
    assert producer.returncode == 0, complaints
    assert said.startswith(f"published to {topic}: 100,000 messages".encode())
    with running(server, "consume", topic) as consumer:
        printed, complaints = consumer.communicate()
    assert consumer.returncode == 0, complaints
    assert printed == lines


def test_a_hundred_thousand_lines_go_through_a_pipe_of_json(server: str, topic: str) -> None:
    lines = [b"key %d\tvalue %d" % (number % 977, number) for number in range(LINES)]
    with running(server, "produce", topic, "--key-separator", r"\t") as producer:
        producer.communicate(b"\n".join(lines))
    with (
        running(server, "consume", topic, "--format", "json") as source,
        running(server, "produce", f"{topic}-copy", "--json-lines", stdin=source.stdout.fileno()) as copier,  # type: ignore[union-attr]
    ):
        assert source.stdout is not None
        source.stdout.close()
        _, complaints = copier.communicate()
        assert copier.returncode == 0, complaints
        assert source.wait() == 0
    with running(server, "consume", f"{topic}-copy", "--key") as consumer:
        printed, _ = consumer.communicate()
    assert sorted(printed.splitlines()) == sorted(lines)
    by_key: dict[bytes, list[int]] = {}
    for line in printed.splitlines():
        key, _, value = line.partition(b"\t")
        by_key.setdefault(key, []).append(int(value.split()[1]))
    assert all(found == sorted(found) for found in by_key.values())


def test_a_typed_line_is_sent_at_once(server: str, topic: str) -> None:
    Command(server).done("topic", "create", topic)
    with running(server, "consume", topic, "--follow") as consumer, running(server, "produce", topic) as producer:
        assert producer.stdin is not None
        assert consumer.stdout is not None
        for line in (b"first\n", b"second\n"):
            producer.stdin.write(line)
            producer.stdin.flush()
            assert consumer.stdout.readline() == line


def test_ctrl_c_publishes_the_lines_that_were_read(server: str, topic: str) -> None:
    Command(server).done("topic", "create", topic)
    with running(server, "consume", topic, "--follow") as consumer, running(server, "produce", topic) as producer:
        assert producer.stdin is not None
        assert consumer.stdout is not None
        producer.stdin.write(b"one\n")
        producer.stdin.flush()
        assert consumer.stdout.readline() == b"one\n"
        producer.send_signal(signal.SIGINT)
        said, complaints = producer.communicate()
    assert producer.returncode == 130
    assert said.startswith(f"published to {topic}: 1 message,".encode())
    assert complaints == b""


def test_ctrl_c_ends_following_quietly(server: str, topic: str) -> None:
    Command(server).done("produce", topic, stdin=b"one\n")
    with running(server, "consume", topic, "--follow") as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"one\n"
        consumer.send_signal(signal.SIGINT)
        printed, complaints = consumer.communicate()
    assert (consumer.returncode, printed, complaints) == (130, b"", b"")


def test_closed_pipe_ends_it_without_an_error(server: str, topic: str) -> None:
    Command(server).done("produce", topic, stdin=(b"x" * 1000 + b"\n") * 3000)
    for options in ([], ["--format", "json"], ["--follow"]):
        with running(server, "consume", topic, *options) as consumer:
            assert consumer.stdout is not None
            assert consumer.stderr is not None
            assert consumer.stdout.readline()
            consumer.stdout.close()
            assert consumer.stderr.read() == b""
            assert consumer.wait() == 0


def test_following_survives_a_restart_of_the_broker(topic: str) -> None:
    with Broker() as first:
        port = int(first.http.rpartition(":")[2])
    with Broker(http_port=port) as broker:
        goqueue = Command(broker.http)
        goqueue.done("produce", topic, stdin=b"one\n")
        with running(broker.http, "consume", topic, "--follow") as consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == b"one\n"
            broker.restart()
            goqueue.done("produce", topic, stdin=b"two\n")
            assert consumer.stdout.readline() == b"two\n"


def test_lines_in_doubt_are_reported_after_the_broker_died(topic: str) -> None:
    with Broker() as broker:
        server = broker.http
        Command(server).done("topic", "create", topic)
        with running(server, "consume", topic, "--follow") as consumer, running(server, "produce", topic) as producer:
            assert producer.stdin is not None
            assert consumer.stdout is not None
            producer.stdin.write(b"one\n")
            producer.stdin.flush()
            assert consumer.stdout.readline() == b"one\n"
            broker.stop()
            said, complaints = producer.communicate(b"two\nthree\n")
    assert producer.returncode == 1
    assert b"1 message," in said
    lost, reason = complaints.splitlines()
    assert lost.startswith(b"standard input:2")
    assert reason.startswith(b"goqueue: ")
    assert b"Traceback" not in complaints


def test_progress_is_shown_on_a_terminal(server: str, topic: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"x" * 100 + b"\n" * 30_000)
    shown, code = on_a_terminal(server, "produce", topic, tmp_path / "lines")
    assert code == 0
    assert "━" in shown
    assert "30,000 messages" in shown


@pytest.fixture(scope="module")
def tables() -> Iterator[Broker]:
    """A broker with one topic, whose facts are as long as they usually are."""
    with Broker() as broker:
        goqueue = Command(broker.http)
        config = ["--config", "retention.ms=1d", "--config", "segment.bytes=1MiB", "--config", "cleanup.policy=compact"]
        goqueue.done("topic", "create", "a-name-of-the-usual-length", *config)
        goqueue.done("produce", "a-name-of-the-usual-length", "--key", "k" * 50, stdin=b"v" * 200 + b"\n")
        yield broker


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_of_a_table_is_wider_than_the_terminal(tables: Broker, columns: int) -> None:
    topic = "a-name-of-the-usual-length"
    for arguments in (
        ["topic", "list", "--sizes"],
        ["topic", "describe", topic],
        ["topic", "alter", topic, "--config", "retention.ms=2d", "--dry-run"],
        ["consume", topic, "--format", "table"],
        ["doctor"],
    ):
        shown, _ = on_a_terminal(tables.http, *arguments, columns=columns)
        lines = shown.replace("\r", "").split("\n")
        assert max(map(len, lines)) <= columns, shown


def on_a_terminal(server: str, *arguments: object, columns: int = 100) -> tuple[str, int]:
    """Run the command on a terminal of that width; return what it showed, without colours, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environ = {**installed_environ(server), "TERM": "xterm", "NO_COLOR": "1"}
    environ.pop("COLUMNS")
    command = [INSTALLED, *map(str, arguments)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as process:
        os.close(theirs)
        shown = b"".join(iter(read_from(ours), b""))
    os.close(ours)
    return without_escapes(shown.decode()), process.returncode


def read_from(terminal: int) -> Callable[[], bytes]:
    def read() -> bytes:
        with suppress(OSError):  # Linux says EIO when the other side has gone
            return os.read(terminal, 65536)
        return b""

    return read


def without_escapes(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
