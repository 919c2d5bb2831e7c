"""`goqueue txn`: through the command, against a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from goqueue.client import (
    Client,
    NewMessage,
    PartitionOffset,
    Producer,
    TransactionView,
    messages,
    topics,
    transactions,
)
from goqueue.errors import TransactionFenced
from goqueue.testing.broker import Broker
from tests.cli.command import Command
from tests.cli.test_topic import completed


@pytest.fixture
def client(goqueue_session_broker: Broker) -> Iterator[Client]:
    with Client(goqueue_session_broker.http) as running:
        yield running


@contextmanager
def hanging(client: Client, topic: str) -> Iterator[str]:
    """Leave a transaction open for the length of a block; it is called like its topic."""
    client.send(topics.create(topic, partitions=2))
    producer = client.send(transactions.init(topic))
    client.send(transactions.publish(producer, topic, [NewMessage("x", partition=1), NewMessage("y", partition=0)]))
    client.send(transactions.send_offsets(producer, f"{topic}-group", [PartitionOffset(topic, 0, 1)]))
    try:
        yield topic
    finally:
        state: TransactionView = client.send(transactions.describe(topic))
        if state.is_under_way:
            client.send(transactions.force_abort(topic))


def test_transactions_are_listed(goqueue: Command, client: Client, topic: str) -> None:
    with hanging(client, topic) as name:
        lines = goqueue.done("txn", "list").splitlines()
        assert lines[0].split("  ")[0] == "transactional id"
        (line,) = [line.split() for line in lines if line.startswith(f"{name} ")]
        assert line[1] == "Ongoing"
        (row,) = [row for row in goqueue.rows("txn", "list", kind="transaction") if row["transactional_id"] == name]
        assert (row["state"], row["timeout_ms"], row["groups"]) == ("Ongoing", 60_000, [f"{name}-group"])
        assert row["partitions"] == [{"topic": name, "partition": 0}, {"topic": name, "partition": 1}]


def test_the_list_is_filtered_by_state_and_producer(goqueue: Command, client: Client, topic: str) -> None:
    with hanging(client, topic) as name:
        producer_id = client.send(transactions.describe(name)).producer_id

        def names(*options: object) -> list[object]:
            return [row["transactional_id"] for row in goqueue.rows("txn", "list", *options, kind="transaction")]

        assert name in names("--state", "ongoing")
        assert name not in names("--state", "Empty")
        assert names("--producer-id", producer_id) == [name]
        nothing = goqueue("txn", "list", "--producer-id", producer_id, "--state", "Empty")
        assert nothing.exit_code == 0
        assert "none that match" in nothing.stderr


def test_a_transaction_is_described(goqueue: Command, client: Client, topic: str) -> None:
    with hanging(client, topic) as name:
        shown = goqueue.done("txn", "describe", name)
        assert shown.startswith(f"transactional id {name}\n")
        for words in ("state        Ongoing", "timeout      1 min", f"groups       {name}-group", " ago"):
            assert words in shown
        assert [line.split() for line in shown.splitlines()[-2:]] == [[name, "0"], [name, "1"]]
        (row,) = goqueue.rows("txn", "describe", name, kind="transaction")
        assert (row["transactional_id"], row["state"]) == (name, "Ongoing")
    shown = goqueue.done("txn", "describe", name)
    assert "state        CompleteAbort" in shown
    assert "began" not in shown


def test_abort_asks_for_the_id_and_shows_the_transaction(goqueue: Command, client: Client, topic: str) -> None:
    with hanging(client, topic) as name:
        reason = goqueue.refused("txn", "abort", name, stdin=b"yes\n")
        assert f"This aborts the transaction of {name} with 2 partitions and offsets of {name}-group." in reason
        assert "nothing was aborted" in reason
        assert client.send(transactions.describe(name)).state == "Ongoing"
        done = goqueue("txn", "abort", name, stdin=f"{name}\n".encode())
        assert done.exit_code == 0
        assert done.stdout == f"aborted the transaction of {name} with 2 partitions and offsets of {name}-group\n"
        assert client.send(transactions.describe(name)).state == "CompleteAbort"


def test_after_an_abort_readers_go_on_and_the_producer_is_fenced(goqueue: Command, client: Client, topic: str) -> None:
    with hanging(client, topic) as name:
        found = client.send(transactions.describe(name))
        producer = client.send(transactions.heartbeat(_identity(found)))
        client.send(messages.publish(name, [NewMessage("behind it", partition=0)]))
        assert client.send(messages.read(name, 0)).messages == []
        goqueue.done("txn", "abort", name, "--yes")
        assert [each.value for each in client.send(messages.read(name, 0)).messages] == [b"behind it"]
        with pytest.raises(TransactionFenced):
            client.send(transactions.commit(_identity(found)))
        assert producer.epoch == found.epoch


def _identity(found: TransactionView) -> Producer:
    return Producer(found.transactional_id, found.producer_id, found.epoch)


def test_dry_run_shows_the_transaction(goqueue: Command, client: Client, topic: str) -> None:
    with hanging(client, topic) as name:
        assert goqueue.done("txn", "abort", name, "--dry-run").startswith(f"would abort the transaction of {name} with")
        (row,) = goqueue.rows("txn", "abort", name, "--dry-run", kind="abort")
        assert (row["transactional_id"], row["is_done"]) == (name, False)
        assert client.send(transactions.describe(name)).state == "Ongoing"
        (row,) = goqueue.rows("txn", "abort", name, "--yes", kind="abort")
        assert row["is_done"] is True


@pytest.mark.parametrize("options", [["--dry-run"], ["--yes"]])
def test_there_has_to_be_something_to_abort(goqueue: Command, client: Client, topic: str, options: list[str]) -> None:
    client.send(transactions.init(topic))
    assert goqueue.refused("txn", "abort", topic, *options).endswith("[invalid_transaction_state]\n")
    for verb in (["describe"], ["abort", *options]):
        reason = goqueue.refused("txn", *verb, "nobody")
        assert reason.count("\n") == 1
        assert reason.endswith("[unknown_transaction]\n")


@pytest.mark.parametrize("output_format", ["table", "json", "yaml"])
@pytest.mark.parametrize("verb", ["list", "describe"])
def test_every_format_names_the_transaction(
    goqueue: Command, client: Client, topic: str, output_format: str, verb: str
) -> None:
    client.send(transactions.init(topic))
    named = [topic] if verb == "describe" else []
    printed = goqueue.done("txn", verb, *named, "--format", output_format)
    assert topic in printed
    if output_format == "json":
        assert {json.loads(line)["kind"] for line in printed.splitlines()} == {"transaction"}


@pytest.mark.parametrize(
    "arguments",
    [["describe"], ["abort"], ["list", "--state", "Sleeping"], ["list", "--producer-id", "-1"], ["commit", "x"]],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_without_a_request(arguments: list[str]) -> None:
    assert Command("http://127.0.0.1:1")("txn", *arguments).exit_code == 2


def test_unreachable_broker_is_one_line_with_a_hint() -> None:
    for arguments in (["list"], ["describe", "x"], ["abort", "x", "--yes"]):
        reason = Command("http://127.0.0.1:1").refused("txn", *arguments)
        assert reason.count("\n") == 1
        assert "goqueue serve" in reason


def test_ids_are_completed(goqueue: Command, client: Client, topic: str) -> None:
    for name in (f"{topic}-one", f"{topic}-two"):
        client.send(transactions.init(name))
    assert completed(goqueue, "txn", "describe", f"{topic}-") == [f"{topic}-one", f"{topic}-two"]
