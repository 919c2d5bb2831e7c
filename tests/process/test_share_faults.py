"""Share consumers and their broker, killed: what was acknowledged never comes back, and everything else does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from goqueue.client import Client, dead_letters
from goqueue.testing import Broker
from tests.clients.adapters.confluent_shares import ConfluentShare, take
from tests.protocols.kafka.process import ServeProcess

TOPIC, GROUP = "orders", "workers"
WAIT_S = 180.0


class Workers:
    """Processes of `share_worker`, and what they have written down."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._running: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start one more worker."""
        path = self._directory / f"worker-{len(self._running)}.jsonl"
        command = [sys.executable, "-m", "tests.process.share_worker", self._bootstrap, GROUP, TOPIC, *options]
        with path.open("wb") as output:
            process = self._running[path] = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        return process

    def events(self) -> list[tuple[float, str, list[int]]]:
        """Return all events in the order of their time; a last line may be cut short."""
        lines = [line for path in self._running for line in path.read_text().splitlines(keepends=True)]
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return sorted((each["at"], each["event"], each["values"]) for each in events)

    def got(self) -> set[int]:
        """Return all values that came."""
        return {value for _, event, values in self.events() if event == "got" for value in values}

    def acked(self) -> set[int]:
        """Return all values whose acknowledgement was confirmed."""
        return {value for _, event, values in self.events() if event == "acked" for value in values}

    def deliveries(self) -> int:
        """Return how many messages came, counted as often as they did."""
        return sum(len(values) for _, event, values in self.events() if event == "got")

    def until(self, count: int) -> None:
        """Wait until so many messages came."""
        self._wait(lambda: len(self.got()), count)

    def until_delivered(self, count: int) -> None:
        """Wait until messages came so often in all."""
        self._wait(self.deliveries, count)

    def _wait(self, number: Callable[[], int], count: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while number() < count:
            assert time.monotonic() < deadline, f"{number()} of {count} messages came in {WAIT_S} s"
            for process in [each for each in self._running.values() if each.returncode is None]:
                # None of them ends by itself.
                with suppress(subprocess.TimeoutExpired):
                    pytest.fail(f"a worker has ended with status {process.wait(0.02)}")

    def close(self) -> None:
        """End all of them."""
        for process in self._running.values():
            process.kill()
            process.wait()


@contextmanager
def _working(directory: Path, bootstrap: str) -> Iterator[Workers]:
    workers = Workers(directory, bootstrap)
    try:
        yield workers
    finally:
        workers.close()


def _create(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(30)


def _fill(bootstrap: str, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(first, end):
        producer.produce(TOPIC, str(number))
    assert producer.flush(60) == 0


def _check(workers: Workers, count: int) -> None:
    """See that everything came, and that nothing came again once its acknowledgement was confirmed."""
    assert workers.got() == set(range(count))
    acked: dict[int, float] = {}
    for at, event, values in workers.events():
        if event == "acked":
            acked |= dict.fromkeys(values, at)
        else:
            late = [value for value in values if value in acked]
            assert not late, f"{late} came again at {at}, acknowledged at {[acked[value] for value in late]}"


def _connections(broker: Broker) -> float:
    lines = httpx.get(f"{broker.http}/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("goqueue_connections "))


@pytest.mark.seeds(2, long_count=20)
def test_a_killed_broker_loses_no_message_and_no_acknowledgement(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    published = 0
    with ServeProcess(tmp_path / "data") as broker, _working(tmp_path, broker.bootstrap) as workers:
        _create(broker.bootstrap, 3)
        for _ in range(2):
            workers.start()
        for _ in range(3):
            _fill(broker.bootstrap, published, published + 200)
            # In the middle of their work.
            workers.until(published + random.randrange(1, 180))
            published += 200
            broker.kill()
            broker.start()
        workers.until(published)
        _check(workers, published)
        # Not all that came was acknowledged: replies were lost.
        assert len(workers.acked()) > published // 2


def test_messages_of_a_killed_consumer_go_to_others(tmp_path: Path) -> None:
    with Broker() as broker, _working(tmp_path, broker.bootstrap) as workers:
        _create(broker.bootstrap, 4)
        _fill(broker.bootstrap, 0, 20)
        holder = workers.start("holds")
        workers.until(20)
        with ConfluentShare(broker.bootstrap, GROUP, TOPIC) as other:
            assert other.poll(1.0) == []
            holder.kill()
            holder.wait()
            # Long before its leases end, and before Kafka would take it for gone.
            broker.advance(10.1)
            again = take(20, other)
        assert sorted(int(each.value) for each in again) == list(range(20))
        assert {each.deliveries for each in again} == {2}


def test_messages_that_kill_each_of_their_consumers_become_dead_letters(tmp_path: Path) -> None:
    with Broker() as broker, Client(broker.http) as client, _working(tmp_path, broker.bootstrap) as workers:
        _create(broker.bootstrap, 1)
        _fill(broker.bootstrap, 0, 3)
        for attempt in range(1, 5):
            assert client.send(dead_letters.browse(TOPIC)).letters == []
            before = _connections(broker)
            victim = workers.start("holds")
            workers.until_delivered(3 * attempt)
            victim.kill()
            victim.wait()
            # Time counts from when the broker has noticed.
            deadline = time.monotonic() + WAIT_S
            while _connections(broker) > before and time.monotonic() < deadline:
                pass
            broker.advance(10.1)
        letters: Sequence[dead_letters.DeadLetter] = []
        deadline = time.monotonic() + WAIT_S
        while len(letters) < 3 and time.monotonic() < deadline:
            letters = client.send(dead_letters.browse(TOPIC)).letters
        assert sorted(int(each.message.value or b"") for each in letters) == [0, 1, 2]
        assert {(each.cause.reason, each.cause.attempts) for each in letters} == {("max_retries_exceeded", 4)}
        _fill(broker.bootstrap, 3, 4)
        with ConfluentShare(broker.bootstrap, GROUP, TOPIC) as survivor:
            assert [each.value for each in take(1, survivor)] == ["3"]
