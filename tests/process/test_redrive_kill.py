"""A broker that is killed again and again while a redrive is under way: each letter is published once."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from goqueue.api.dead_letters import Redrive
from goqueue.client import Client, NewMessage, dead_letters, messages, topics
from tests.protocols.kafka.process import ServeProcess

TOPIC, LETTERS = "orders", "orders.dlq"
PARTITIONS = 3
COUNT = 300
RATE = 100
KILLS = 2
WAIT_S = 180.0


def _write_letters(client: Client) -> None:
    for topic in (TOPIC, LETTERS):
        client.send(topics.create(topic, partitions=PARTITIONS))
    letters = []
    for number in range(COUNT):
        partition = number % PARTITIONS
        cause = {"reason": "rejected", "topic": TOPIC, "partition": str(partition), "offset": str(number)}
        headers = [(f"goqueue-dlq-{name}", value) for name, value in cause.items()]
        letters.append(NewMessage(str(number), headers=headers, partition=partition))
    client.send(messages.publish(LETTERS, letters))


def _has_moved(broker: ServeProcess, redrive_id: str, count: int) -> Redrive:
    """Return a redrive as it is when it has published so many letters, or has ended."""
    deadline = time.monotonic() + WAIT_S
    with Client(broker.http) as client:
        while True:
            job = client.send(dead_letters.find_redrive(redrive_id))
            if job.is_over or job.moves.moved >= count:
                return job
            assert time.monotonic() < deadline, f"the redrive does not go on: {job}"
            with pytest.raises(subprocess.TimeoutExpired):
                broker.process.wait(0.01)


def _copies(client: Client) -> Counter[tuple[int, bytes | None]]:
    found: Counter[tuple[int, bytes | None]] = Counter()
    for partition in range(PARTITIONS):
        offset = 0
        while True:
            page = client.send(messages.read(TOPIC, partition, offset=offset, limit=1000))
            found.update((partition, each.value) for each in page.messages)
            offset = page.next_offset
            if offset >= page.end_offset:
                break
    return found


@pytest.mark.seeds(1, long_count=20)
def test_each_letter_is_published_once_however_often_the_broker_is_killed(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    with ServeProcess(tmp_path / "data") as broker:
        with Client(broker.http) as client:
            _write_letters(client)
            job = client.send(dead_letters.redrive(TOPIC, rate=RATE))
        for count in sorted(random.sample(range(COUNT), KILLS)):
            _has_moved(broker, job.id, count)
            broker.kill()
            broker.start()
        ended = _has_moved(broker, job.id, COUNT + 1)
        with Client(broker.http) as client:
            assert (ended.state, ended.moves.moved, ended.moves.failed) == ("done", COUNT, 0)
            expected = {(number % PARTITIONS, str(number).encode()): 1 for number in range(COUNT)}
            assert _copies(client) == expected
            assert client.send(dead_letters.preview(TOPIC)).moves.moved == 0
