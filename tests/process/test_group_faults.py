"""Members of a group and its broker, stopped and killed: one owner at a time, no commit lost, everything read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.process.group_history import History, check
from tests.protocols.kafka.process import ServeProcess

TOPIC, GROUP = "orders", "readers"
PARTITIONS = 4
WAIT_S = 180.0


class Members:
    """Processes of `group_worker`, by name."""

    def __init__(self, directory: Path, bootstrap: str, protocol: str) -> None:
        self.history = History()
        self._directory = directory
        self._arguments = [bootstrap, GROUP, TOPIC, protocol]
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> str:
        """Start one more member."""
        name = f"member-{len(self.history.events)}"
        self.history.events[name] = []
        command = [sys.executable, "-m", "tests.process.group_worker", *self._arguments]
        with self._path(name).open("wb") as output:
            self._running[name] = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        return name

    def kill(self, name: str) -> None:
        """End a member as `kill -9` does."""
        self.history.silenced.setdefault(name, []).append(time.monotonic())
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str) -> None:
        """Let a member freeze."""
        self.history.silenced.setdefault(name, []).append(time.monotonic())
        os.kill(self._running[name].pid, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """Let a frozen member go on: it does not know that time has passed."""
        os.kill(self._running[name].pid, signal.SIGCONT)

    def owners(self) -> dict[int, str]:
        """Return who has which partition now."""
        self.look()
        now = time.monotonic()
        return {each.partition: each.member for each in self.history.ownership() if each.end > now}

    def look(self) -> None:
        """Take in what the members have written down."""
        for name in self.history.events:
            self.history.read(name, self._path(name))

    def close(self) -> None:
        """End all of them."""
        for name in list(self._running):
            self.go_on(name)
            self.kill(name)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.jsonl"


@contextmanager
def members_of(directory: Path, broker: ServeProcess, protocol: str) -> Iterator[Members]:
    members = Members(directory, broker.bootstrap, protocol)
    try:
        yield members
    finally:
        members.close()


def eventually(broker: ServeProcess, fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact, while the broker has to live."""
    deadline = time.monotonic() + WAIT_S
    while not fact():
        assert time.monotonic() < deadline, f"in {WAIT_S:g} s it did not come true that {what}"
        with pytest.raises(subprocess.TimeoutExpired):
            broker.process.wait(0.1)


def publish(bootstrap: str, count: int) -> None:
    """Publish so many more messages."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def committed(bootstrap: str) -> dict[int, int]:
    """Return the offsets of the group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    wanted = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    found = {each.partition: each.offset for each in consumer.committed(wanted, timeout=30)}
    consumer.close()
    return found


def scenario(broker: ServeProcess, members: Members, random: Random) -> int:
    """Let members come and go while messages are published; return how many there are."""
    published = 0

    def more() -> None:
        nonlocal published
        publish(broker.bootstrap, 400)
        published += 400

    def all_owned_by(count: int) -> None:
        eventually(
            broker,
            lambda: len(members.owners()) == PARTITIONS and len(set(members.owners().values())) == count,
            f"{count} members share all partitions",
        )

    names = [members.start(), members.start()]
    all_owned_by(2)
    more()
    broker.kill()
    broker.start()
    more()
    names.append(members.start())
    all_owned_by(3)
    victim = names.pop(random.randrange(len(names)))
    # Until its session is over: six seconds with `classic`, half a minute with `consumer`.
    members.stop(victim)
    more()
    all_owned_by(2)
    more()
    members.go_on(victim)
    names.append(victim)
    all_owned_by(3)
    members.kill(names.pop(0))
    more()
    broker.kill()
    broker.start()
    return published


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.seeds(1, long_count=10)
def test_members_and_broker_may_die_at_any_time(protocol: str, seed: int, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServeProcess(data) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        with members_of(tmp_path, broker, protocol) as members:
            published = scenario(broker, members, Random(seed))
            ends = dict.fromkeys(range(PARTITIONS), published // PARTITIONS)
            eventually(broker, lambda: committed(broker.bootstrap) == ends, "the group has read everything")
            members.look()
    check(members.history)
    assert members.history.read_offsets() == {each: set(range(end)) for each, end in ends.items()}
