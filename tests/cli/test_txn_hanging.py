"""Transactions that nothing ends by itself, because damage may have taken their end: they are ended by hand.

The damage is real: a byte is changed in the log file that a broker has written.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.broker.events import DoubtfulTransaction
from goqueue.client import Client, NewMessage, OpenTransaction, Patience, messages, topics, transactions
from goqueue.errors import CoordinatorUnavailable, Corrupt, InvalidTransactionState, UnknownPartition
from goqueue.testing.broker import Broker
from tests.cli.command import Command

End = Callable[[Broker, OpenTransaction], None]


@contextmanager
def damaged(path: Path) -> Iterator[Broker]:
    """A broker on what another one has left that was killed, with the last record damaged: the marker of a commit."""
    with Broker() as killed, Client(killed.http) as client:
        client.send(topics.create("orders", partitions=1))
        with client.transaction("billing") as transaction:
            transaction.publish("orders", [NewMessage("in doubt", partition=0)])
        # What a kill would leave: all that was acknowledged, and no word of a proper end.
        shutil.copytree(killed.data_dir, path, dirs_exist_ok=True)
    (log,) = (path / "orders-0").glob("*.log")
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    with Broker(data_dir=path) as broker:
        with Client(broker.http) as client:
            client.send(messages.publish("orders", [NewMessage("behind it", partition=0)]))
        yield broker


def seen(client: Client) -> list[bytes | None]:
    """Return what readers of committed messages find from the beginning, over what is damaged."""
    found: list[bytes | None] = []
    offset, end = 0, -1
    while offset != end:
        try:
            page = client.send(messages.read("orders", 0, offset=offset))
        except Corrupt:
            offset += 1
            continue
        found += [message.value for message in page.messages]
        offset, end = page.next_offset, page.end_offset
    return found


def by_command(broker: Broker, doomed: OpenTransaction) -> None:
    said = Command(broker.http).done("txn", "abort", "--partition", "orders:0", "--yes")
    where = f"the messages of producer {doomed.producer_id} from offset 0 on"
    assert said == f"aborted in orders:0 {where}, which may have been committed: its end may be lost in damage\n"


def by_http(broker: Broker, doomed: OpenTransaction) -> None:
    path = f"{broker.http}/topics/orders/partitions/0/transactions/abort"
    assert httpx.post(path, json={"producer_id": doomed.producer_id}).status_code == 204
    again = httpx.post(path, json={"producer_id": doomed.producer_id})
    assert (again.status_code, again.json()["code"]) == (409, "invalid_transaction_state")


def by_kafka(broker: Broker, doomed: OpenTransaction) -> None:
    # The package loads the client without those of its warnings that are none of ours.
    kafka: Any = import_module("tests.clients.adapters").kafka
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.abort_transaction(
            kafka.admin.AbortTransactionSpec(
                topic_partition=kafka.TopicPartition("orders", 0),
                producer_id=doomed.producer_id,
                producer_epoch=doomed.epoch,
            )
        )
    finally:
        admin.close()


@pytest.mark.parametrize("end", [by_command, by_http, by_kafka])
def test_readers_continue_after_a_doubtful_transaction_is_aborted(tmp_path: Path, end: End) -> None:
    with damaged(tmp_path) as broker, Client(broker.http) as client:
        (told,) = [event for event in broker.events if isinstance(event, DoubtfulTransaction)]
        assert (told.topic, told.partition, told.first_offset) == ("orders", 0, 0)
        assert seen(client) == []
        (doomed,) = client.send(transactions.list_open("orders", 0))
        assert (doomed.first_offset, doomed.transactional_id, doomed.may_be_committed) == (0, None, True)
        end(broker, doomed)
        assert client.send(transactions.list_open("orders", 0)) == []
        assert seen(client) == [b"behind it"]
    with Broker(data_dir=tmp_path) as broker, Client(broker.http) as client:
        assert seen(client) == [b"behind it"]
        assert [event for event in broker.events if isinstance(event, DoubtfulTransaction)] == []


def test_abort_by_partition_asks_for_confirmation(tmp_path: Path) -> None:
    with damaged(tmp_path) as broker, Client(broker.http) as client:
        goqueue = Command(broker.http)
        (row,) = goqueue.rows("txn", "abort", "--partition", "orders:0", "--dry-run", kind="abort")
        assert (row["first_offset"], row["may_be_committed"], row["is_done"]) == (0, True, False)
        refused = goqueue.refused("txn", "abort", "--partition", "orders:0", stdin=b"orders\n")
        assert "nothing was aborted" in refused
        assert seen(client) == []
        assert goqueue.done("txn", "abort", "--partition", "orders:0", stdin=b"orders:0\n").startswith("aborted")
        assert seen(client) == [b"behind it"]
        assert "no transaction hangs in orders:0" in goqueue.refused("txn", "abort", "--partition", "orders:0")


def test_transaction_of_a_coordinator_is_not_aborted_by_partition(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker, Client(broker.http) as client:
        client.send(topics.create("orders", partitions=1))
        with client.transaction("billing") as transaction:
            transaction.publish("orders", [NewMessage("x", partition=0)])
            (found,) = client.send(transactions.list_open("orders", 0))
            assert (found.transactional_id, found.may_be_committed) == ("billing", False)
            with pytest.raises(InvalidTransactionState, match="is that of 'billing'"):
                client.send(transactions.abort_hanging("orders", 0, found.producer_id))
            refused = Command(broker.http).refused("txn", "abort", "--partition", "orders:0", "--yes")
            assert "abort the open ones by their ids: billing" in refused
        assert seen(client) == [b"x"]
        with pytest.raises(UnknownPartition):
            client.send(transactions.list_open("orders", 1))


@contextmanager
def without_coordinator(path: Path) -> Iterator[Broker]:
    """A broker with an open transaction, on what another one has left; the log that knew of it is damaged."""
    with Broker() as killed, Client(killed.http) as client:
        client.send(topics.create("orders", partitions=1))
        producer = client.send(transactions.init("billing"))
        client.send(transactions.publish(producer, "orders", [NewMessage("open", partition=0)]))
        client.send(messages.publish("orders", [NewMessage("behind it", partition=0)]))
        shutil.copytree(killed.data_dir, path, dirs_exist_ok=True)
    (log,) = [log for log in path.glob("__transactions-*/*.log") if log.stat().st_size]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with Broker(data_dir=path) as broker:
        yield broker


def test_transaction_of_a_damaged_coordinator_needs_force(tmp_path: Path) -> None:
    with without_coordinator(tmp_path) as broker, Client(broker.http, patience=Patience(attempts=1)) as client:
        goqueue = Command(broker.http)
        (found,) = client.send(transactions.list_open("orders", 0))
        assert found.transactional_id is None
        refused = goqueue.refused("txn", "abort", "--partition", "orders:0", "--yes")
        assert "--force" in refused
        with pytest.raises(CoordinatorUnavailable, match="not all coordinators can be asked"):
            client.send(transactions.abort_hanging("orders", 0, found.producer_id))
        assert seen(client) == []
        assert goqueue.done("txn", "abort", "--partition", "orders:0", "--yes", "--force").startswith("aborted in")
        assert seen(client) == [b"behind it"]


def test_force_needs_a_partition(goqueue: Command) -> None:
    assert "--force" in goqueue.refused("txn", "abort", "billing", "--force", exit_code=2)


def test_abort_through_kafka_ends_a_known_transaction_in_all_partitions(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker, Client(broker.http) as client:
        for name in ("orders", "other"):
            client.send(topics.create(name, partitions=1))
        producer = client.send(transactions.init("billing"))
        for name in ("orders", "other"):
            client.send(transactions.publish(producer, name, [NewMessage("x", partition=0)]))
        (found,) = client.send(transactions.list_open("orders", 0))
        by_kafka(broker, found)
        assert client.send(transactions.describe("billing")).state == "CompleteAbort"
        assert client.send(transactions.list_open("other", 0)) == []


@pytest.mark.parametrize("given", [[], ["billing", "--partition", "orders:0"], ["--partition", "orders"]])
def test_abort_needs_either_an_id_or_a_partition(goqueue: Command, given: list[str]) -> None:
    goqueue.refused("txn", "abort", *given, exit_code=2)
