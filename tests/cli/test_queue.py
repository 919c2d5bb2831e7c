"""`goqueue queue`: messages are received and settled, and groups looked after, from the command line."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import ShareConsumer

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
    assert "is not leased under this receipt any more (and 1 more)" in refusal
    assert "this is no receipt" in goqueue.refused("queue", "nack", "nonsense")
    assert "there is no receipt" in goqueue.refused("queue", "ack", "-")


def test_what_is_in_a_group_is_shown(goqueue: Command, queue: str) -> None:
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
    assert "there is nothing to receive now" in goqueue("queue", "receive", queue, queue, "--wait", "20ms").stderr


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


def test_a_group_goes_on_where_it_is_told(goqueue: Command, queue: str) -> None:
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
    assert f"This moves {queue} in {queue}, and forgets what is in flight there:" in refusal
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
    assert "retries" in goqueue.refused("queue", "alter", queue, "--set", "retries=many")
    assert "'retries' is no setting" in goqueue.refused("queue", "alter", queue, "--set", "retries")

    goqueue.done("queue", "pause", queue, "--reason", "the database moves")
    paused = goqueue("queue", "receive", queue, queue)
    assert "the group is paused: the database moves" in paused.stderr
    assert goqueue.done("queue", "resume", queue) == f"resumed {queue}, with 5 messages to be done\n"

    receive(goqueue, queue, "--max", 1)
    refusal = goqueue.refused("queue", "purge", queue, queue, stdin=b"another\n")
    assert f"This skips 5 messages of {queue} for {queue}." in refusal
    goqueue.done("queue", "purge", queue, queue, stdin=queue.encode() + b"\n")
    assert describe(goqueue, queue)["depth"] == 0
    goqueue.done("queue", "delete", queue, "--yes")
    assert "there is no queue group" in goqueue.refused("queue", "describe", queue)
