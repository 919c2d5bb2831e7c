"""Workers and their broker, stopped and killed in the middle of transactions: each input has one output."""

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
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from tests.process.txn_history import History, check
from tests.process.txn_worker import GIVEN_UP
from tests.protocols.kafka.process import ServeProcess, raw
from tests.protocols.kafka.transaction_kit import LIST_TRANSACTIONS

SOURCE, TARGET, GROUP = "inputs", "outputs", "workers"
INPUT_PARTITIONS, OUTPUT_PARTITIONS = 4, 3
WAIT_S = 180.0


class Workers:
    """Processes of `txn_worker`, by name; one that gives up is started again under the same name."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.paths: list[Path] = []
        self._directory = directory
        self._bootstrap = bootstrap
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a worker, which takes over its transactional id."""
        path = self._directory / f"{name}-{len(self.paths)}.jsonl"
        self.paths.append(path)
        command = [sys.executable, "-m", "tests.process.txn_worker", self._bootstrap, name, GROUP, SOURCE, TARGET]
        with path.open("wb") as output, (self._directory / "workers.err").open("ab") as errors:
            self._running[name] = subprocess.Popen(command, stdout=output, stderr=errors)

    def maintain(self) -> None:
        """Restart workers that have given up; no worker may end in another way."""
        for name, process in list(self._running.items()):
            status = process.poll()
            if status is not None:
                assert status == GIVEN_UP, f"worker {name} ended with {status}"
                self.start(name)

    def kill(self, name: str) -> None:
        """End a worker as `kill -9` does."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def freeze(self, name: str) -> None:
        """Stop a worker."""
        os.kill(self._running[name].pid, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """Let a frozen worker go on: it does not know that time has passed."""
        os.kill(self._running[name].pid, signal.SIGCONT)

    def close(self) -> None:
        """End all of them."""
        for name in list(self._running):
            self.go_on(name)
            self.kill(name)


class World:
    """The broker, the workers, and an observer that polls the offsets of the group."""

    def __init__(self, broker: ServeProcess, workers: Workers) -> None:
        self.broker = broker
        self.workers = workers
        self.history = History()
        self._looking = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "log_level": 0})

    def publish(self, count: int) -> None:
        """Publish so many more inputs."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True, "log_level": 0})
        first = len(self.history.inputs)
        for number in range(first, first + count):
            producer.produce(SOURCE, b"%d" % number, partition=number % INPUT_PARTITIONS)
            self.history.inputs.add(str(number))
        assert producer.flush(WAIT_S) == 0

    def until_handled(self, count: int) -> None:
        """Wait until the group has got so far, in inputs of all partitions."""
        self.eventually(lambda: sum(self._look().values()) >= count, f"{count} inputs were handled")

    def until_further(self, count: int) -> None:
        """Wait until so many more inputs were handled."""
        self.until_handled(sum(self._look().values()) + count)

    def _look(self) -> dict[int, int]:
        wanted = [TopicPartition(SOURCE, index) for index in range(INPUT_PARTITIONS)]
        try:
            found = self._looking.committed(wanted, timeout=5)
        except KafkaException:
            return {}
        offsets = {each.partition: each.offset for each in found if each.offset >= 0 and each.error is None}
        if len(found) == INPUT_PARTITIONS and not any(each.error for each in found):
            self.history.offsets.append(offsets)
        return offsets

    def eventually(self, fact: Callable[[], bool], what: str) -> None:
        """Wait for a fact, while the broker has to live."""
        deadline = time.monotonic() + WAIT_S
        while not fact():
            assert time.monotonic() < deadline, f"in {WAIT_S:g} s it did not come true that {what}"
            self.workers.maintain()
            with pytest.raises(subprocess.TimeoutExpired):
                self.broker.process.wait(0.05)

    def freeze_in_transaction(self, name: str) -> None:
        """Stop a worker in the middle of a transaction."""

        def is_frozen() -> bool:
            self.workers.freeze(name)
            if name in self._open_transactions():
                return True
            self.workers.go_on(name)
            return False

        self.eventually(is_frozen, f"{name} is in the middle of a transaction")

    def _open_transactions(self) -> set[str]:
        with raw(self.broker.port) as connection:
            wanted = {"state_filters": ["Ongoing"], "producer_id_filters": [], "duration_filter": -1}
            reply = connection.call(LIST_TRANSACTIONS, 1, wanted)
        return {each["transactional_id"] for each in reply["transaction_states"]}

    def restart_broker(self) -> None:
        """Kill the broker, and start it again."""
        self.broker.kill()
        self.broker.start()

    def ends(self, isolation: IsolationLevel) -> dict[int, int]:
        """Return where readers see the end of each output partition."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(TARGET, index): latest for index in range(OUTPUT_PARTITIONS)}
        found = admin.list_offsets(wanted, isolation_level=isolation)
        return {place.partition: future.result(30).offset for place, future in found.items()}

    def finish(self) -> None:
        """Wait until all is handled and no transaction is open, and look at what is left."""
        self.until_handled(len(self.history.inputs))
        self.workers.close()
        committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        self.eventually(lambda: self.ends(committed) == self.ends(uncommitted), "all transactions have ended")
        self.history.stable, self.history.ends = self.ends(committed), self.ends(uncommitted)
        self.history.seen = read_committed(self.broker.bootstrap)
        self.history.read(self.workers.paths)
        self._looking.close()


def read_committed(bootstrap: str) -> list[str]:
    """Return the outputs that readers of what is committed see."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    values = []
    for partition in range(OUTPUT_PARTITIONS):
        consumer.assign([TopicPartition(TARGET, partition, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            values.append((message.value() or b"").decode())
        assert message is not None, "the end was never reached"
    consumer.close()
    return values


@contextmanager
def world_of(directory: Path) -> Iterator[World]:
    """Run a broker with its topics, and no worker yet."""
    with ServeProcess(directory / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        made = admin.create_topics([NewTopic(SOURCE, INPUT_PARTITIONS, 1), NewTopic(TARGET, OUTPUT_PARTITIONS, 1)])
        for each in made.values():
            each.result(30)
        workers = Workers(directory, broker.bootstrap)
        try:
            yield World(broker, workers)
        finally:
            workers.close()


def scenario(world: World, random: Random, rounds: int) -> None:
    """Kill all workers in the middle of their work."""
    names = ["one", "two"]
    for name in names:
        world.workers.start(name)
    world.publish(600)
    world.until_handled(random.randrange(50, 200))
    for _ in range(rounds):
        world.restart_broker()
        world.publish(200)
        world.until_further(random.randrange(20, 100))
        frozen, other = random.sample(names, 2)
        world.freeze_in_transaction(frozen)
        # It is frozen until others have taken over what it read, and what it wrote was aborted.
        world.publish(200)
        world.until_handled(len(world.history.inputs))
        world.publish(200)
        world.workers.go_on(frozen)
        world.workers.kill(other)
        world.workers.start(other)
        world.until_further(random.randrange(20, 100))
        world.restart_broker()


def play(directory: Path, seed: int, rounds: int) -> None:
    """Run a scenario, and check what it leaves."""
    with world_of(directory) as world:
        scenario(world, Random(seed), rounds)
        world.finish()
        assert "damage" not in world.broker.reports().lower()
    check(world.history)
    assert world.history.aborted, "nothing was ever aborted"


def test_each_input_has_one_output_after_any_kill(tmp_path: Path) -> None:
    play(tmp_path, seed=0, rounds=1)


@pytest.mark.long
@pytest.mark.seeds(5, long_count=10)
def test_each_input_has_one_output_after_many_kills(seed: int, tmp_path: Path) -> None:
    play(tmp_path, seed, rounds=4)
