"""Workers of a queue group and its broker, stopped and killed: all is handled, and nothing again that was done."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from goqueue.client import Client, NewMessage, Patience, messages, queues, topics
from tests.process.queue_history import QueueHistory, check
from tests.protocols.kafka.process import ServeProcess

TOPIC, GROUP = "orders", "billing"
PARTITIONS = 2
WAIT_S = 180.0
VISIBILITY_S = 3.0


class Workers:
    """Processes of `queue_worker`, by name."""

    def __init__(self, directory: Path, server: str, kind: str) -> None:
        self.history = QueueHistory()
        self.names: list[str] = []
        self._directory = directory
        self._arguments = [server, GROUP, TOPIC, str(VISIBILITY_S), kind]
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> str:
        """Start one more."""
        name = f"worker-{len(self.names)}"
        self.names.append(name)
        command = [sys.executable, "-m", "tests.process.queue_worker", *self._arguments]
        with self._path(name).open("wb") as output, self._path(name).with_suffix(".err").open("wb") as said:
            self._running[name] = subprocess.Popen(command, stdout=output, stderr=said)
        return name

    def kill(self, name: str) -> None:
        """End one as `kill -9` does."""
        process = self._running.pop(name)
        process.kill()
        process.wait(WAIT_S)

    def terminate(self, name: str) -> int:
        """Ask one to stop; return its exit status."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(WAIT_S)

    def look(self) -> QueueHistory:
        """Return what they have written down so far."""
        for name in self.names:
            self.history.read(name, self._path(name))
        return self.history

    def handled_by(self, name: str) -> int:
        """Return how many messages one has begun with."""
        return sum(each.worker == name for each in self.look().handled)

    def close(self) -> None:
        """End all of them."""
        for name in list(self._running):
            self.kill(name)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.jsonl"


@contextmanager
def scene(directory: Path, kind: str) -> Iterator[tuple[ServeProcess, Workers, Client]]:
    """A broker with a topic, whose address stays the same after a restart, and no workers yet."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    server = f"http://127.0.0.1:{port}"
    with ServeProcess(directory / "data", "--http-port", str(port)) as broker, Client(server) as client:
        client.send(topics.create(TOPIC, partitions=PARTITIONS))
        workers = Workers(directory, server, kind)
        try:
            yield broker, workers, client
        finally:
            workers.close()


def publish(client: Client, count: int) -> None:
    """Publish so many messages, to all partitions in turn."""
    values = [NewMessage(str(number), partition=number % PARTITIONS) for number in range(count)]
    client.send(messages.publish(TOPIC, values))


def eventually(broker: ServeProcess, fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact, while the broker has to live."""
    deadline = time.monotonic() + WAIT_S
    while not fact():
        assert time.monotonic() < deadline, f"in {WAIT_S:g} s it did not come true that {what}"
        with pytest.raises(subprocess.TimeoutExpired):
            broker.process.wait(0.05)


def is_empty(client: Client) -> bool:
    """Tell whether all messages of the group are done."""
    queue = client.send(queues.describe(GROUP), patience=Patience(attempts=10))
    return queue.depth == 0


def places(count: int) -> set[tuple[int, int]]:
    """Return where so many published messages lie."""
    return {(number % PARTITIONS, number // PARTITIONS) for number in range(count)}


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_messages_of_a_killed_worker_go_to_another_one(kind: str, tmp_path: Path) -> None:
    with scene(tmp_path, kind) as (broker, workers, client):
        publish(client, 600)
        victim = workers.start()
        eventually(broker, lambda: workers.handled_by(victim) > 50, "it works")
        workers.kill(victim)
        left = workers.start()
        eventually(broker, lambda: is_empty(client), "the other one has done everything")
        assert workers.terminate(left) == 0
        history = workers.look()
    check(history)
    assert history.places == places(600)
    # The other worker begins unfinished messages again, as their second delivery.
    open_ones = {each.place for each in history.handled if each.worker == victim} - {
        each.place for each in history.handled if each.worker == victim and each.receipt in history.acked
    }
    begun_again = {each.place: each.delivery for each in history.handled if each.worker == left}
    unheard = open_ones - set(begun_again)
    assert {begun_again[place] for place in open_ones - unheard} == {2}
    # The last ack may have been stored without its reply arriving.
    assert len(unheard) <= 200


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_worker_that_is_asked_to_stop_leaves_nothing_leased(kind: str, tmp_path: Path) -> None:
    with scene(tmp_path, kind) as (broker, workers, client):
        publish(client, 2000)
        name = workers.start()
        eventually(broker, lambda: workers.handled_by(name) > 50, "it works")
        assert workers.terminate(name) == 0
        queue = client.send(queues.describe(GROUP))
        history = workers.look()
    check(history)
    assert history.ended == {name}
    assert (queue.in_flight, queue.depth) == (0, 2000 - len(history.done))
    # All that was begun was finished, and its end confirmed.
    assert history.places == set(history.done)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.seeds(1, long_count=10)
def test_workers_and_broker_may_die_at_any_time(kind: str, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    with scene(tmp_path, kind) as (broker, workers, client):
        names = [workers.start() for _ in range(3)]
        publish(client, 1000)
        eventually(broker, lambda: len(workers.look().done) > random.randrange(50, 150), "they work")
        broker.kill()
        broker.start()
        eventually(broker, lambda: len(workers.look().done) > 250, "they go on")
        workers.kill(names.pop(random.randrange(len(names))))
        names.append(workers.start())
        publish(client, 1000)
        eventually(broker, lambda: len(workers.look().done) > random.randrange(500, 900), "they go on")
        broker.kill()
        broker.start()
        assert workers.terminate(names.pop(random.randrange(len(names)))) == 0
        eventually(broker, lambda: is_empty(client), "everything is done")
        assert [workers.terminate(name) for name in names] == [0, 0]
        history = workers.look()
        dead = client.send(topics.list_all())
    check(history)
    assert history.places == places(2000)
    assert [topic.name for topic in dead] == [TOPIC], "nothing has become a dead letter"
