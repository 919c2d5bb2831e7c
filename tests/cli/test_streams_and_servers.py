"""Readers that leave early, closed streams, and addresses as people write them, with the installed command."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from goqueue.client import Client, NewMessage, messages
from goqueue.client.client import check_server
from goqueue.errors import Invalid
from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, installed_environ


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with topics whose list is longer than what a pipe or a buffer takes at once."""
    with Broker() as running, Client(running.http) as client:
        client.send(messages.publish("orders", [NewMessage("x" * 100, partition=0)] * 2_000))
        yield running


def run(broker: Broker, line: str) -> tuple[list[int], str]:
    """Run a pipeline of the shell; return the exit codes of its commands, and what was said."""
    line = line.replace("goqueue", INSTALLED).replace("DATA", str(broker.data_dir))
    environ = installed_environ(broker.http)
    environ.pop("PYTHONUNBUFFERED")
    done = subprocess.run(
        ["bash", "-c", f"{line}; echo codes ${{PIPESTATUS[@]}} >&2"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said, _, codes = done.stderr.rpartition("codes ")
    return [int(code) for code in codes.split()], said


@pytest.mark.parametrize(
    "line",
    [
        "goqueue topic list | true",
        "goqueue topic list --format json | true",
        "goqueue log dump DATA --records | head -1",
        "goqueue log dump DATA --records --format json | head -1",
        "goqueue consume orders | head -1",
        "goqueue consume orders --format json | head -1",
    ],
)
def test_command_ends_quietly_when_its_reader_has_left(broker: Broker, line: str) -> None:
    codes, said = run(broker, line)
    assert (codes, said) == ([0, 0], "")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("goqueue consume orders >&-", "goqueue: standard output is closed"),
        ("goqueue produce orders <&-", "goqueue: standard input is closed"),
        ("goqueue queue ack - <&-", "goqueue: standard input is closed"),
    ],
)
def test_closed_streams_are_reported_in_one_line(broker: Broker, line: str, told: str) -> None:
    codes, said = run(broker, line)
    assert codes == [1]
    assert said.startswith(told)
    assert said.count("\n") == 1


@pytest.mark.parametrize("line", ["goqueue topic list >&-", "goqueue topic list 2>&-", "goqueue topic list <&-"])
def test_commands_that_do_not_need_a_closed_stream_work(broker: Broker, line: str) -> None:
    assert run(broker, line) == ([0], "")


def test_server_is_taken_without_a_scheme(broker: Broker) -> None:
    address = broker.http.removeprefix("http://")
    assert "orders" in Command("http://127.0.0.1:1").done("topic", "list", "--server", address)
    assert "orders" in Command(address).done("topic", "list")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("broker", "http://broker"),
        ("[::1]:8080/", "http://[::1]:8080"),
        ("https://broker", "https://broker"),
    ],
)
def test_address_without_a_scheme_is_http(written: str, meant: str) -> None:
    assert check_server(written) == meant


@pytest.mark.parametrize("written", ["", "ftp://broker", "broker:port", "user@broker:8080", "broker:8080/path", "::1"])
def test_invalid_address_is_refused(written: str) -> None:
    with pytest.raises(Invalid, match="address"):
        check_server(written)


@pytest.mark.parametrize("arguments", [["topic", "list"], ["consume", "orders"], ["produce", "orders"]], ids=str)
def test_kafka_port_given_as_server_is_recognised(broker: Broker, arguments: list[str]) -> None:
    result = Command(broker.bootstrap)(*arguments, stdin=b"x\n")
    assert result.exit_code == 1
    assert "is the Kafka port of a broker" in result.stderr
    assert "--server" in result.stderr
