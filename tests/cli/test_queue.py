"""`goqueue queue`: messages are received and settled, and groups looked after, from the command line."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import ShareConsumer

from goqueue.api.fields import WAIT_MS_MAX
from goqueue.api.queues import QueueSettingsToChange
from goqueue.cli.queues import arguments as queue_arguments
from goqueue.cli.terminal.times import time_text
from goqueue.model.queue_settings import DELAY_MS_MAX, VISIBILITY_MS_MAX
from goqueue.model.request_limits import MESSAGES_MAX
from goqueue.model.units import parse_duration_ms
from goqueue.testing.broker import Broker
from tests.cli.command import Command


@pytest.fixture
def queue(goqueue: Command, topic: str) -> str:
    """A topic with five messages; the queue group of the tests has its name."""
    goqueue.done("topic", "create", topic, "--partitions", 1)
    goqueue.done("produce", topic, stdin=b"".join(b"order%d\n" % number for number in range(5)))
    return topic


def receive(goqueue: Command, queue: str, *options: object) -> list[Any]:
    return list(goqueue.rows("queue", "receive", queue, queue, *options, kind="message"))


def describe(goqueue: Command, queue: str) -> Any:
    (told,) = goqueue.rows("queue", "describe", queue, kind="queue")
    return told


def test_messages_are_received_settled_and_come_again(goqueue: Command, queue: str) -> None:
    first, second, third, fourth = receive(goqueue, queue, "--max", 4, "--consumer", "ann", "--visibility", "1m")
    assert (first["value"], first["delivery_count"], first["offset"]) == ("order0", 1, 0)
    assert goqueue.done("queue", "ack", first["receipt_handle"]) == "1 message is done\n"
    told = goqueue.done("queue", "nack", second["receipt_handle"], "--delay", "0s", "--reason", "no luck")
    assert told == "1 message is ready\n"
    told = goqueue.done("queue", "reject", "-", stdin=third["receipt_handle"].encode() + b"\n")
    assert told == "1 message is dead\n"
    (longer,) = goqueue.rows("queue", "extend", fourth["receipt_handle"], "--for", "5m", kind="settled")
    assert int(str(longer["until"])) > fourth["deadline"]
    again = receive(goqueue, queue)
    assert [(each["value"], each["delivery_count"]) for each in again] == [("order1", 2), ("order4", 1)]


def test_a_receipt_that_is_stale_or_none_fails_the_command(goqueue: Command, queue: str) -> None:
    (message,) = receive(goqueue, queue, "--max", 1, "--ack")
    refusal = goqueue.refused("queue", "ack", message["receipt_handle"], message["receipt_handle"])
    assert f"receipt {message['receipt_handle'][:37]}...: offset 0 of {queue}-0 is not leased" in refusal
    assert "under this receipt any more (and 1 more)" in refusal
    assert "receipt nonsense: this is no receipt" in goqueue.refused("queue", "nack", "nonsense")
    assert "receipt AAAA" in goqueue.refused("queue", "ack", "A" * 5000)
    assert "standard input has no receipts" in goqueue.refused("queue", "ack", "-", exit_code=2)


def test_as_many_receipts_are_settled_as_are_given(goqueue: Command, queue: str) -> None:
    (message,) = receive(goqueue, queue, "--max", 1)
    lines = ["made-up"] * 10_000 + [message["receipt_handle"]]
    result = goqueue("queue", "ack", "-", stdin="\n".join(lines).encode())
    assert (result.exit_code, result.stdout) == (1, "1 message is done\n")
    assert "receipt made-up: this is no receipt of this broker (and 9,999 more)" in result.stderr


def test_a_topic_that_is_not_there_keeps_no_messages_of_others_back(goqueue: Command, queue: str) -> None:
    missing = f"{queue}-missing"
    got = goqueue.rows("queue", "receive", queue, queue, missing, kind="message")
    assert [each["value"] for each in got] == [f"order{number}" for number in range(5)]
    assert f"there is no topic '{missing}'" in goqueue.refused("queue", "receive", queue, queue, missing)


def test_each_command_that_receives_is_a_consumer_of_its_own(goqueue: Command, queue: str) -> None:
    receive(goqueue, queue, "--max", 1)
    receive(goqueue, queue, "--max", 1, "--consumer", "ann")
    consumers = describe(goqueue, queue)["consumers"]
    assert consumers == {f"cli-{socket.gethostname()}-{os.getpid()}": 1, "ann": 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("receive", "g", "t", "--wait", "soon"), "--wait: 'soon' is not a duration: write 500ms, 30s, 5m or 1h"),
        (("receive", "g", "t", "--wait", "90s"), "--wait: '90s' is too long: at most 60s"),
        (("receive", "g", "t", "--wait", "5"), "--wait: 5 has no unit: write 5s or 5ms"),
        (("receive", "g", "t", "--visibility", "13h"), "--visibility: '13h' is too long: at most 12h"),
        (("receive", "g", "t", "--max", "10001"), "10001 is not in the range 1<=x<=10000"),
        (("receive", "g", "t", "--consumer", "c" * 251), "--consumer: 251 characters are too many: at most 250"),
        (("receive", "g", ""), "TOPIC: '' cannot be the name of a topic"),
        (("receive", "g", *["t"] * 101), "TOPIC: 101 topics are too many: at most 100"),
        (("peek", "g", "a b"), "TOPIC: 'a b' cannot be the name of a topic"),
        (("nack", "receipt", "--delay", "abc"), "--delay: 'abc' is not a duration"),
        (("nack", "receipt", "--reason", "r" * 4097), "--reason: 4,097 characters are too many: at most 4,096"),
        (("seek", "g", "t", "--to", "nowhere"), "--to: 'nowhere' is neither start, end, an offset, a time such as"),
        (("extend", "receipt", "--for", "1d"), "--for: '1d' is too long: at most 12h"),
        (("pause", "g", "--reason", ""), "--reason: must not be empty"),
        (("alter", "g", "--set", "retries"), "--set: 'retries' is not NAME=VALUE"),
        (("alter", "g", "--set", "retries=1", "--set", "retries=2"), "--set: retries is given twice"),
        (("alter", "g", "--set", "retry=3"), "--set: 'retry' is not a setting of a queue group; the settings are vis"),
        (
            ("alter", "g", "--unset", "retry"),
            "--unset: 'retry' is not a setting of a queue group; the settings are vis",
        ),
        (("alter", "g", "--unset", "retries", "--set", "retries=2"), "--unset: retries is also in --set"),
        (("alter", "g"), "name a change: --set or --unset"),
        (("alter", "g", "--set", "retries=many"), "--set: retries must be a whole number, not 'many'"),
        (("alter", "g", "--set", "backoff_factor=nan"), "backoff_factor must be a number, not 'nan'"),
        (
            ("alter", "g", "--set", "visibility_timeout=abc"),
            "--set visibility_timeout: 'abc' is not a duration: write 50",
        ),
        (("alter", "g", "--set", "backoff=5"), "--set backoff: 5 has no unit: write 5s or 5ms"),
        (("alter", "g", "--set", "ordering=fifo"), "ordering must be none or key, not 'fifo'"),
        (("alter", "g", "--set", "start=noon"), "start must be earliest, latest, a time such as"),
        (("alter", "g", "--set", "dead_letters=a/b"), "--set dead_letters: 'a/b' cannot be the name of a topic"),
    ],
)
def test_syntax_errors_are_reported_before_a_request(goqueue: Command, arguments: Sequence[str], said: str) -> None:
    refusal = goqueue.refused("queue", *arguments, exit_code=2)
    assert said in refusal


def test_limits_and_settings_match_the_broker(goqueue: Command) -> None:
    assert list(queue_arguments._READERS) == list(QueueSettingsToChange.__struct_fields__)
    assert parse_duration_ms(queue_arguments.WAIT_MAX) == WAIT_MS_MAX
    assert parse_duration_ms(queue_arguments.VISIBILITY_MAX) == VISIBILITY_MS_MAX
    assert parse_duration_ms(queue_arguments.DELAY_MAX) == DELAY_MS_MAX
    assert queue_arguments.MESSAGES_MAX == MESSAGES_MAX
    text = goqueue.done("queue", "alter", "--help")
    for name in QueueSettingsToChange.__struct_fields__:
        assert f" {name} " in text


def test_start_of_a_group_is_parsed_and_shown_as_a_time(goqueue: Command, queue: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    goqueue.done("queue", "alter", queue, "--set", "retries=7", "--set", "start=10m ago")
    unset = ("--unset", "retries", "--unset", "start", "--format", "json")
    settings = json.loads(goqueue.done("queue", "alter", queue, *unset))["settings"]
    assert (settings["retries"], settings["start"]) == (3, "earliest")
    goqueue.done("queue", "alter", queue, "--set", "start=10m ago")
    assert 0 <= describe(goqueue, queue)["settings"]["start"] - (now_ms - 600_000) < 60_000
    goqueue.done("queue", "alter", queue, "--set", "start=2026-01-31T10:00:00Z")
    assert describe(goqueue, queue)["settings"]["start"] == 1_769_853_600_000
    shown = goqueue.done("queue", "alter", queue, "--set", "start=1769853600000")
    assert f"start               {time_text(1_769_853_600_000)}\n" in shown
    assert "dead_letters        {topic}.dlq\n" in shown


def test_describe_and_peek_show_the_messages_of_a_group(goqueue: Command, queue: str) -> None:
    receive(goqueue, queue, "--max", 3, "--ack")
    receive(goqueue, queue, "--max", 1, "--consumer", "ann")
    table = goqueue.done("queue", "describe", queue)
    for part in (f"queue group {queue}", "2 messages", "held by ann", "visibility_timeout  30s", f"{queue}-0"):
        assert part in table
    (row,) = [line for line in goqueue.done("queue", "list").splitlines() if line.startswith(f"{queue} ")]
    assert row.split()[:3] == [queue, "2", "1"]
    (row,) = [line for line in goqueue.done("group", "list").splitlines() if line.startswith(f"{queue} ")]
    assert row.split() == [queue, "queue", "stable", "1", "2"]
    (offset,) = goqueue.rows("group", "describe", queue, kind="offset")
    assert (offset["offset"], offset["lag"]) == (3, 2)
    assert offset["committed_at"] is None
    explained = goqueue.done("group", "explain", queue)
    assert "is a queue group, 1 consumer of it has messages now" in explained
    assert "ann holds 1 message." in explained
    described = goqueue.done("group", "describe", queue)
    assert "1970" not in described
    (line,) = [line for line in described.splitlines() if line.startswith("ann ")]
    assert line.split() == ["ann", "ann", "-", "1", "-"]
    assert "is a queue group" in goqueue.refused("group", "delete", queue, "--yes")
    peeked = goqueue.rows("queue", "peek", queue, queue, kind="message")
    assert [each["value"] for each in peeked] == ["order4"]
    assert "order4" in goqueue.done("queue", "peek", queue, queue)
    (line,) = goqueue.done("queue", "receive", queue, queue).splitlines()[2:]
    assert line.split()[-1] == "order4"
    assert "no messages are available" in goqueue("queue", "receive", queue, queue, "--wait", "20ms").stderr


def test_share_consumers_are_shown_whether_they_hold_something_or_not(
    goqueue: Command, queue: str, goqueue_session_broker: Broker
) -> None:
    receive(goqueue, queue, "--max", 5)
    settings = {"bootstrap.servers": goqueue_session_broker.bootstrap, "group.id": queue, "client.id": "app"}

    def joined() -> list[str]:
        found = goqueue.done("queue", "describe", queue).splitlines()
        return [line for line in found if line.strip().startswith("member app")]

    with ShareConsumer(settings) as member:
        member.subscribe([queue])
        for _ in range(300):
            member.poll(0.1)
            if joined():
                break
        (line,) = joined()
        assert f"0 messages of {queue} (" in line
        (row,) = [line.split() for line in goqueue.done("queue", "list").splitlines() if line.startswith(f"{queue} ")]
        assert row[-2] == "2"
        (row,) = [line.split() for line in goqueue.done("group", "list").splitlines() if line.startswith(f"{queue} ")]
        assert row == [queue, "queue", "stable", "2", "5"]
        (row,) = [line.split() for line in goqueue.done("group", "describe", queue).splitlines() if "app " in line]
        assert (row[0], row[-2:]) == ("app", ["0", f"{queue}-0"])
        assert f"holds 0 messages, and looks at {queue}-0." in goqueue.done("group", "explain", queue)
        assert "has share consumers as members" in goqueue.refused("queue", "delete", queue, "--yes")


def test_seek_moves_a_queue_group(goqueue: Command, queue: str) -> None:
    receive(goqueue, queue, "--max", 3, "--ack")
    receive(goqueue, queue, "--max", 1)
    (move,) = goqueue.rows("queue", "seek", queue, queue, "--to", "start", "--dry-run", kind="move")
    assert [move[name] for name in ("cursor", "offset", "in_flight", "skipped", "again")] == [4, 0, 1, 0, 4]
    assert move["is_done"] is False
    assert describe(goqueue, queue)["depth"] == 2
    table = goqueue.done("queue", "seek", queue, queue, "--to", 5, "--dry-run")
    assert table.startswith(f"would move {queue} in 1 partition")
    assert table.splitlines()[-1].split() == [f"{queue}-0", "4", "5", "2", "0", "1"]

    refusal = goqueue.refused("queue", "seek", queue, queue, "--to", "start", stdin=b"another\n")
    assert "nothing was moved" in refusal
    assert f"This moves {queue} in {queue}, and ends its leases there:" in refusal
    goqueue.done("queue", "seek", queue, queue, "--to", "1h ago", stdin=queue.encode() + b"\n")
    assert [each["value"] for each in receive(goqueue, queue)] == [f"order{number}" for number in range(5)]
    goqueue.done("queue", "seek", queue, queue, "--to", "end", "--partition", 0, "--yes")
    assert receive(goqueue, queue) == []

    for wrong in ("-3", "middle"):
        goqueue.refused("queue", "seek", queue, queue, "--to", wrong, "--yes", exit_code=2)
    assert "[unknown_queue]" in goqueue.refused("queue", "seek", "nope", queue, "--to", "start", "--yes")
    assert "[unknown_partition]" in goqueue.refused(
        "queue", "seek", queue, queue, "--to", "start", "--partition", 7, "--dry-run"
    )


def test_a_queue_group_is_not_moved_as_a_stream_group_is(goqueue: Command, queue: str) -> None:
    receive(goqueue, queue, "--max", 1)
    for how in ("--dry-run", "--yes"):
        refusal = goqueue.refused("group", "seek", queue, "--to", "start", "--topic", queue, how)
        assert "is a queue group" in refusal
        assert "goqueue queue seek" in refusal


def test_a_group_is_altered_paused_resumed_purged_and_deleted(goqueue: Command, queue: str) -> None:
    goqueue.done("queue", "alter", queue, "--set", "retries=7", "--set", "breaker_ratio=0.25", "--set", "backoff=2s")
    settings = describe(goqueue, queue)["settings"]
    assert (settings["retries"], settings["breaker_ratio"], settings["backoff"]) == (7, 0.25, "2s")
    assert "retries is 5000, and may be 0 to 1000" in goqueue.refused("queue", "alter", queue, "--set", "retries=5000")
    assert "is the broker's own" in goqueue.refused("queue", "alter", queue, "--set", "dead_letters=__letters")

    told = goqueue.done("queue", "pause", queue, "--reason", "the database moves")
    assert told == f"paused {queue}: the database moves\n"
    (row,) = goqueue.rows("queue", "pause", queue, "--reason", "the database moves", kind="queue")
    assert (row["paused"], row["pause_reason"]) == (True, "the database moves")
    paused = goqueue("queue", "receive", queue, queue)
    assert "the group is paused: the database moves" in paused.stderr
    assert goqueue.done("queue", "resume", queue) == f"resumed {queue}, with 5 messages to process\n"

    (row,) = goqueue.rows("queue", "resume", queue, kind="queue")
    assert row["paused"] is False

    receive(goqueue, queue, "--max", 1)
    would = f"would skip 5 messages of {queue} for {queue}\n"
    assert goqueue.done("queue", "purge", queue, queue, "--dry-run") == would
    refusal = goqueue.refused("queue", "purge", queue, queue, stdin=b"another\n")
    assert f"This skips 5 messages of {queue} for {queue}." in refusal
    goqueue.done("queue", "purge", queue, queue, stdin=queue.encode() + b"\n")
    assert describe(goqueue, queue)["depth"] == 0
    goqueue.done("queue", "delete", queue, "--yes")
    assert "there is no queue group" in goqueue.refused("queue", "describe", queue)


def test_why_dead_messages_wait_is_shown(goqueue: Command, queue: str) -> None:
    letters = f"{queue}-letters"
    # There are no two replicas.
    goqueue.done("topic", "create", letters, "--partitions", 1, "--config", "min.insync.replicas=2")
    goqueue.done("queue", "alter", queue, "--set", f"dead_letters={letters}")
    (message,) = receive(goqueue, queue, "--max", 1)
    goqueue.done("queue", "reject", message["receipt_handle"])
    shown = f"1 dead message of {queue}-0 cannot become dead letters now: "
    # The broker of this file has other dead letters to write as well, so it may take a while.
    deadline = time.monotonic() + 120
    while shown not in (table := goqueue.done("queue", "describe", queue)):
        assert time.monotonic() < deadline, table
