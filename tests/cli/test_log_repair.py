"""`goqueue log repair`: a damaged log of the broker's own is no dead end, and topics keep their messages."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from goqueue.broker import repair as core
from goqueue.broker.events import PartitionUnavailable
from goqueue.cli.main import app
from goqueue.client import (
    Client,
    NewMessage,
    PartitionOffset,
    dead_letters,
    groups,
    messages,
    queues,
    topics,
    transactions,
)
from goqueue.errors import Corrupt, DiskFull
from goqueue.seams.entropy import SystemEntropy
from goqueue.testing import Broker, PowerLoss, SimDisk

VALUES = [f"value-{number}" for number in range(20)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with topics, messages, committed offsets and a queue group, after a clean stop."""
    data = tmp_path_factory.mktemp("repair") / "data"
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        for name in ("orders", "refunds", "users"):
            client.send(topics.create(name, partitions=2, config={"retention.ms": "86400000"}))
            for value in VALUES:
                client.send(messages.publish(name, [NewMessage(value, partition=0), NewMessage(value, partition=1)]))
        for number in range(10):
            client.send(groups.commit(f"group-{number}", [PartitionOffset("orders", 0, number)]))
        for _ in range(3):
            received = client.send(queues.receive("workers", ["orders"], limit=3))
            client.send(queues.ack(*received.messages))
    return data


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copy = tmp_path / "data"
    shutil.copytree(filled, copy)
    return copy


def goqueue(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def _largest(data: Path, topic: str) -> Path:
    """Return the segment of an internal topic that holds most."""
    return max(data.glob(f"{topic}-*/*.log"), key=lambda path: path.stat().st_size)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:100] + b"\xa5" * (size - 100))


def remove(path: Path) -> None:
    path.unlink()


def _dead(client: Client) -> int:
    """Return how many dead letters of `users` there are, redriven or not."""
    return sum(each.letters for each in client.send(dead_letters.list_all()))


def _reject_and_redrive(client: Client, count: int) -> None:
    """Have messages of `users` die, and publish those again that are dead."""
    # If the record of its end is lost, the one before goes on first.
    _wait_for(lambda: all(each.is_over for each in client.send(dead_letters.list_redrives())))
    before = _dead(client)
    received = client.send(queues.receive("billing", ["users"], limit=count))
    assert len(received.messages) == count
    client.send(queues.reject(*received.messages, reason="no such customer"))
    _wait_for(lambda: _dead(client) == before + count)
    started = client.send(dead_letters.redrive("users"))
    _wait_for(lambda: client.send(dead_letters.find_redrive(started.id)).is_over)
    ended = client.send(dead_letters.find_redrive(started.id))
    assert (ended.state, ended.error) == ("done", "")
    assert ended.moves.moved >= count


def _wait_for(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < deadline


def _require_all_messages(broker: Broker, names: Iterable[str] = ("orders", "refunds", "users")) -> None:
    with Client(broker.http) as client:
        for name in names:
            for partition in (0, 1):
                read = client.send(messages.read(name, partition, offset=0))
                assert [message.value for message in read.messages] == [value.encode() for value in VALUES]


@pytest.mark.parametrize("damage", [flip, cut, empty, garbage, remove])
def test_a_damaged_catalogue_names_the_command_that_repairs_it_and_no_message_is_lost(
    data: Path, damage: Callable[[Path], None]
) -> None:
    damage(_largest(data, "__catalog"))
    with pytest.raises(Corrupt, match="catalogue of topics is damaged") as refused, Broker(data_dir=data):
        pass
    assert f"goqueue log repair {data}" in str(refused.value.hint)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"}

    preview = goqueue("log", "repair", data, "--dry-run")
    assert preview.exit_code == 0, preview.output
    assert "__catalog-0" in preview.output
    refused_repair = goqueue("log", "repair", data, stdin="no\n")
    assert refused_repair.exit_code == 1
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"} == before

    repaired = goqueue("log", "repair", data, stdin="repair\n")
    assert repaired.exit_code == 0, repaired.output
    assert (data / "__catalog-0.damaged-1").is_dir()
    with Broker(data_dir=data) as broker:
        _require_all_messages(broker)
    assert "nothing to repair" in goqueue("log", "repair", data).output


@pytest.mark.parametrize("damage", [flip, cut, empty, garbage, remove])
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__deliveries"])
def test_repair_keeps_the_readable_records_of_a_coordinators_log(
    data: Path, topic: str, damage: Callable[[Path], None]
) -> None:
    damaged = _largest(data, topic)
    damage(damaged)
    with Broker(data_dir=data) as broker:
        unavailable = broker.sink.of(PartitionUnavailable)
        assert [event.topic for event in unavailable] == [topic]
        assert f"goqueue log repair {data}" in unavailable[0].reason
        _require_all_messages(broker)
    repaired = goqueue("log", "repair", data, "--yes")
    assert repaired.exit_code == 0, repaired.output
    assert (data / f"{damaged.parent.name}.damaged-1").is_dir()
    with Broker(data_dir=data) as broker:
        assert not broker.sink.of(PartitionUnavailable)
        _require_all_messages(broker)
        with Client(broker.http) as client:
            client.send(groups.commit("group-0", [PartitionOffset("orders", 0, 7)]))
            client.send(queues.receive("workers", ["orders"], limit=1))


def test_only_directories_that_hold_the_log_of_a_partition_become_topics(data: Path) -> None:
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        client.send(topics.create("orders.damaged-items", partitions=1))
        client.send(messages.publish("orders.damaged-items", [NewMessage("kept")]))
    (data / "backup-2026").mkdir()
    (data / "backup-2026" / "notes").write_text("mine")
    (data / "report-20261118").write_text("mine")
    for name in ("a topic-1", "orders-20261118"):
        shutil.copytree(data / "orders-0", data / name)
    (data / "mine.repair").mkdir()
    remove(_largest(data, "__catalog"))
    preview = goqueue("log", "repair", data, "--dry-run")
    assert preview.exit_code == 0, preview.output
    for name in ("backup", "report", "a topic", "mine"):
        assert name not in preview.output
    assert "topic orders is known from its directories: at least 2 partitions" in preview.output
    repaired = goqueue("log", "repair", data, "--yes")
    assert repaired.exit_code == 0, repaired.output
    assert (data / "mine.repair").is_dir()
    with Broker(data_dir=data) as broker:
        _require_all_messages(broker)
        with Client(broker.http) as client:
            found = {topic.name: topic.partitions for topic in client.send(topics.list_all())}
            assert found == {"orders": 2, "refunds": 2, "users": 2, "orders.damaged-items": 1}
            read = client.send(messages.read("orders.damaged-items", 0, offset=0))
            assert [message.value for message in read.messages] == [b"kept"]


def test_partitions_after_the_last_one_that_was_written_to_are_lost_with_the_catalogue_and_the_preview_says_so(
    data: Path,
) -> None:
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        client.send(topics.create("wide", partitions=10))
        client.send(messages.publish("wide", [NewMessage("x", partition=3)]))
    remove(_largest(data, "__catalog"))
    preview = goqueue("log", "repair", data, "--dry-run").output
    assert "topic wide is known from its directories: at least 4 partitions, and it gets 4" in preview
    assert "partitions after the last one that was written to" in preview


def test_no_producer_gets_the_id_of_another_though_the_catalogue_is_lost_twice(data: Path) -> None:
    ids: list[int] = []
    for number in range(3):
        remove(_largest(data, "__catalog"))
        repaired = goqueue("log", "repair", data, "--yes")
        assert repaired.exit_code == 0, repaired.output
        with Broker(data_dir=data) as broker, Client(broker.http) as client:
            ids.append(client.send(transactions.init(f"new-{number}")).producer_id)
    assert len(set(ids)) == 3


def test_a_repair_for_which_the_disk_has_no_room_leaves_everything_as_it_was(data: Path) -> None:
    flip(_largest(data, "__consumer_offsets"))
    disk = SimDisk(0)
    disk.copy_from_real(data)
    root = next(iter(_roots(disk)))
    before = disk.tree()
    plans = core.plan_repairs(disk, root, SystemEntropy(), 1)
    disk.fail(errno.ENOSPC, operation="write", times=None)
    with pytest.raises(DiskFull):
        core.repair(disk, root, plans)
    disk.heal()
    assert disk.tree() == before
    core.repair(disk, root, core.plan_repairs(disk, root, SystemEntropy(), 1))
    assert core.plan_repairs(disk, root, SystemEntropy(), 1) == []


@pytest.mark.parametrize("damage", [flip, cut, empty, garbage, remove])
def test_transactions_go_on_after_their_damaged_log_was_repaired(data: Path, damage: Callable[[Path], None]) -> None:
    names = [f"job-{number}" for number in range(20)]
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        client.send(topics.create("results", partitions=1))
        for round_number in range(3):
            for name in names:
                with client.transaction(name) as transaction:
                    transaction.publish("results", [NewMessage(f"{name} {round_number}")])
        for name in names:
            producer = client.send(transactions.init(name))
            client.send(transactions.begin(producer))
            client.send(transactions.publish(producer, "results", [NewMessage(f"{name} open")]))
    damaged = _largest(data, "__transactions")
    damage(damaged)
    with Broker(data_dir=data) as broker:
        assert [event.topic for event in broker.sink.of(PartitionUnavailable)] == ["__transactions"]
    repaired = goqueue("log", "repair", data, "--yes")
    assert repaired.exit_code == 0, repaired.output
    assert "aborted where they are open" in repaired.output
    assert (data / f"{damaged.parent.name}.damaged-1").is_dir()
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        assert not broker.sink.of(PartitionUnavailable)
        for name in names:
            with client.transaction(name) as transaction:
                transaction.publish("results", [NewMessage(f"{name} after")])
        # No transaction is left open, and what was committed before is there once.
        expected = [f"{name} {number}" for number in range(3) for name in names] + [f"{name} after" for name in names]
        found: list[str] = []
        offset = 0
        while len(found) < len(expected):
            read = client.send(messages.read("results", 0, offset=offset, wait_s=20))
            assert read.messages
            found += [(message.value or b"").decode() for message in read.messages]
            offset = read.next_offset
        assert found == expected
        _require_all_messages(broker)


def test_groups_read_on_after_the_transaction_that_would_have_set_their_offsets_was_lost(data: Path) -> None:
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        producer = client.send(transactions.init("job"))
        client.send(transactions.begin(producer))
        sent = [PartitionOffset("orders", partition, 7) for partition in (0, 1)]
        assert client.send(transactions.send_offsets(producer, "copiers", sent)) == [None, None]
    remove(_largest(data, "__transactions"))
    repaired = goqueue("log", "repair", data, "--yes")
    assert repaired.exit_code == 0, repaired.output
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        member = client.send(groups.join("copiers", ["orders"]))
        _wait_for(lambda: len(client.send(groups.heartbeat("copiers", member)).assignment) == 2)
        page = client.send(groups.poll("copiers", client.send(groups.heartbeat("copiers", member))))
        assert not page.errors
        assert len(page.messages) == 2 * len(VALUES)


@pytest.mark.parametrize("damage", [flip, cut, empty, garbage, remove])
def test_dead_letters_are_redriven_after_the_damaged_log_of_redrives_was_repaired(
    data: Path, damage: Callable[[Path], None]
) -> None:
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        _reject_and_redrive(client, 10)
    damage(_largest(data, "__redrives"))
    with Broker(data_dir=data) as broker:
        assert [event.topic for event in broker.sink.of(PartitionUnavailable)] == ["__redrives"]
        _require_all_messages(broker, ("orders", "refunds"))
    repaired = goqueue("log", "repair", data, "--yes")
    assert repaired.exit_code == 0, repaired.output
    assert "dead letters may be redriven again" in repaired.output
    assert (data / "__redrives-0.damaged-1").is_dir()
    with Broker(data_dir=data) as broker, Client(broker.http) as client:
        assert not broker.sink.of(PartitionUnavailable)
        _require_all_messages(broker, ("orders", "refunds"))
        _reject_and_redrive(client, 3)


def test_a_repair_is_refused_while_a_broker_runs(data: Path) -> None:
    with Broker(data_dir=data):
        refused = goqueue("log", "repair", data, "--dry-run")
    assert refused.exit_code == 1
    assert "in use by another process" in refused.output


def test_an_interrupted_repair_can_be_run_again_and_no_broker_starts_in_between(data: Path) -> None:
    cut(_largest(data, "__catalog"))
    disk = SimDisk(0)
    disk.copy_from_real(data)
    root = next(iter(_roots(disk)))
    for operations in range(1, 500):
        crashing = disk.clone(operations)
        crashing.crash_after(operations)
        try:
            core.repair(crashing, root, core.plan_repairs(crashing, root, SystemEntropy(), 1))
        except PowerLoss:
            crashing.crash()
            again = core.plan_repairs(crashing, root, SystemEntropy(), 1)
            core.repair(crashing, root, again)
        names = crashing.list_directory(root)
        assert core.plan_repairs(crashing, root, SystemEntropy(), 1) == []
        assert "__catalog-0" in names
        assert not [name for name in names if name.endswith(".repair")]
        if operations > crashing.operations:
            break


def _roots(disk: SimDisk) -> Iterator[Path]:
    for path in disk.tree():
        found = Path(path)
        while found.name and found.name != "__catalog-0":
            found = found.parent
        if found.name:
            yield found.parent
