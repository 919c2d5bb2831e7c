"""A broker that dies while some of its logs were used since a clean stop, and others were not: nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.messages.reading import Polls, ReadRequest, read_messages
from goqueue.runtime import maintenance
from goqueue.runtime.flusher import Flusher
from goqueue.testing import Fate, SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_stage import publish_values

TOPICS = ("used", "read", "asleep", "new")


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _values(broker: Broker, topic: str) -> list[bytes | None]:
    read = await read_messages(broker.messages, CALLER, Polls(), topic, 0, ReadRequest(offset=0))
    return [record.value for record in read.records]


@pytest.mark.parametrize("fate", [Fate.NONE, Fate.ALL, None])
@pytest.mark.parametrize("stops_between", [False, True])
def test_a_kill_while_logs_sleep_loses_nothing(fate: Fate | None, *, stops_between: bool) -> None:
    disk = SimDisk(1)

    async def fill(broker: Broker) -> None:
        for topic in TOPICS:
            await MakeTopic(topic, 1).perform(broker)
        for topic in TOPICS[:-1]:
            await publish_values(broker, ["one", "two"], topic)

    async def use(broker: Broker) -> None:
        assert all(broker.topics.topic(topic).partition(0).log.is_unopened for topic in TOPICS)
        await publish_values(broker, ["three"], "used")
        await publish_values(broker, ["first"], "new")
        assert await _values(broker, "read") == [b"one", b"two"]
        assert broker.topics.topic("asleep").partition(0).log.is_unopened

    async def look(broker: Broker) -> None:
        await let_pass(5)
        assert await _values(broker, "used") == [b"one", b"two", b"three"]
        assert await _values(broker, "read") == [b"one", b"two"]
        assert await _values(broker, "asleep") == [b"one", b"two"]
        assert await _values(broker, "new") == [b"first"]
        partitions = [broker.topics.topic(topic).partition(0) for topic in TOPICS]
        assert [partition.log.obstacle for partition in partitions] == [""] * len(TOPICS)

    live(disk, 1, fill, stops=True)
    live(disk, 2, use, stops=stops_between)
    disk.crash(fate)
    for seed in (3, 4):
        live(disk, seed, look)
        disk.crash(fate)


def test_upkeep_visits_a_log_that_a_read_has_opened_and_leaves_those_that_sleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk(1)
    tended: list[str] = []
    maintain = maintenance.maintain

    async def note(flusher: Flusher, *which: Any, **how: Any) -> None:
        tended.append(flusher.log.directory.name)
        await maintain(flusher, *which, **how)

    async def fill(broker: Broker) -> None:
        for topic in TOPICS:
            await MakeTopic(topic, 1).perform(broker)
            await publish_values(broker, ["one"], topic)

    async def use(broker: Broker) -> None:
        await let_pass(5)
        tended.clear()
        assert await _values(broker, "read") == [b"one"]
        await let_pass(5)
        assert "read-0" in tended
        assert not {"used-0", "asleep-0"} & {*tended}

    live(disk, 1, fill, stops=True)
    monkeypatch.setattr(maintenance, "maintain", note)
    live(disk, 2, use, stops=True)
