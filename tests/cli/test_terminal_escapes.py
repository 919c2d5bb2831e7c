"""What clients choose cannot control a terminal: names, keys and values with control characters are shown visibly."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import httpx
import pytest

from goqueue.cli.consume.output import MessageFormat, writer
from goqueue.client import Client, Message, NewMessage, PartitionOffset, groups, messages, queues
from goqueue.model.visible_text import visible
from goqueue.seams.sink import Event, LoggingSink, Severity
from goqueue.testing.broker import Broker
from tests.cli.command import Command
from tests.cli.test_processes import on_a_terminal

EVIL = "x\x1b[31mA\x07\r\nforged\x9b\u202e\u2066y"
SHOWN = r"x\x1b[31mA\x07\x0d\x0aforged\x9b\u202e\u2066y"
# All but the line feed, which ends the lines of the command itself.
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose clients have chosen names, keys and values that control terminals."""
    with Broker() as running, Client(running.http) as client:
        client.send(messages.publish("orders", [NewMessage(EVIL, key=EVIL, partition=0)] * 3))
        client.send(groups.commit(EVIL, [PartitionOffset("orders", 0, 1, EVIL)]))
        client.send(groups.join(f"members {EVIL}", ["orders"], client_id=EVIL))
        client.send(queues.receive(f"queue {EVIL}", "orders", limit=1, consumer=EVIL, visibility_s="1h"))
        client.send(queues.pause(f"queue {EVIL}", EVIL))
        client.send(queues.receive("workers", "orders", limit=1, consumer=EVIL))
        rejected = client.send(queues.receive("workers", "orders", limit=1)).messages
        client.send(queues.reject(*rejected, reason=EVIL))
        with client.transaction(EVIL) as transaction:
            transaction.publish("orders", [NewMessage("in a transaction", partition=0)])
        client.send(queues.alter("peeked", retries=1))
        yield running


COMMANDS = {
    "group list": ["group", "list"],
    "group describe": ["group", "describe", EVIL],
    "group describe members": ["group", "describe", f"members {EVIL}"],
    "group explain": ["group", "explain", EVIL],
    "group explain members": ["group", "explain", f"members {EVIL}"],
    "queue list": ["queue", "list"],
    "queue describe": ["queue", "describe", f"queue {EVIL}"],
    "queue peek": ["queue", "peek", "peeked", "orders"],
    "queue receive": ["queue", "receive", "others", "orders"],
    "txn list": ["txn", "list"],
    "txn describe": ["txn", "describe", EVIL],
    "dlq show": ["dlq", "show", "orders"],
    "consume table": ["consume", "orders", "--format", "table"],
    "group list yaml": ["group", "list", "--format", "yaml"],
    "group list json": ["group", "list", "--format", "json"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_command_shows_control_characters_visibly(broker: Broker, arguments: list[str]) -> None:
    result = Command(broker.http)(*arguments)
    assert result.exit_code in {0, 1}, result.output
    assert not RAW.search(result.stdout), result.stdout
    assert not RAW.search(result.stderr), result.stderr
    assert "forged" in result.stdout
    assert not re.search(r"(?m)^forged", result.stdout), "a row was forged"


def test_log_dump_shows_records_visibly(broker: Broker) -> None:
    shown = Command(broker.http).done("log", "dump", broker.data_dir, "--records")
    assert SHOWN in shown
    assert not RAW.search(shown)


def test_errors_show_control_characters_visibly(broker: Broker) -> None:
    result = Command(broker.http)("group", "describe", f"unknown {EVIL}")
    assert result.exit_code == 1
    assert not RAW.search(result.stderr)


@pytest.mark.parametrize(
    "arguments",
    [["consume", "orders", "--count", "1"], ["consume", "orders", "--count", "1", "--format", "json"]],
    ids=["lines", "json"],
)
def test_consume_escapes_output_to_a_terminal(broker: Broker, arguments: list[str]) -> None:
    shown, code = on_a_terminal(broker.http, *arguments)
    assert code == 0
    assert not RAW.search(shown.replace("\r\n", "\n")), shown
    assert "forged" in shown


def test_consume_leaves_bytes_alone_in_a_pipe(broker: Broker) -> None:
    assert Command(broker.http).done("consume", "orders", "--count", "1") == EVIL.replace("\r\n", "\n") + "\n"


def test_labels_of_metrics_have_no_control_characters(broker: Broker) -> None:
    text = httpx.get(f"{broker.http}/metrics").text
    assert not RAW.search(text)
    assert r"x\\x1b[31mA" in text


@dataclass(frozen=True, slots=True)
class Refused(Event):
    severity: ClassVar[Severity] = Severity.WARNING
    name: str


def test_lines_of_the_log_have_no_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "goqueue"):
        LoggingSink().emit(Refused(EVIL))
    assert not RAW.search(caplog.messages[-1])
    assert "\n" not in caplog.messages[-1]


def test_visible_text_is_left_alone() -> None:
    plain = "Zażółć gęślą jaźń, \\x1b, שלום, 日本語 🎉"
    assert visible(plain) == plain
    assert visible(EVIL) == SHOWN
    assert visible(visible(EVIL)) == SHOWN


def test_lines_are_raw_unless_they_go_to_a_terminal(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    message = Message("orders", 0, 0, 0, None, EVIL.encode() + b"\xff", ())
    writer(MessageFormat.LINES, with_key=False)([message])
    assert capsysbinary.readouterr().out == EVIL.encode() + b"\xff\n"
