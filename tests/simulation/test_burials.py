"""How dead messages become letters while others are at work: what is made anew, what fails, and how much at once."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.dead_letters.writer import DeadLetterWriter
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.queues.admin import delete_queue
from goqueue.broker.topics.admin import delete_topic
from goqueue.machines.groups.offsets import NO_EPOCH
from goqueue.machines.queues.commands import Seek
from goqueue.machines.queues.values import AckType
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord, build_batch
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Letter, PublishValue, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import flight_states


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


class Gate:
    """Letters that were written, and of which nobody knows until the gate is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        real = DeadLetterWriter._publish

        async def publish(undertaker: DeadLetterWriter, *which: Any) -> Any:
            outcomes = await real(undertaker, *which)
            self.reached.set()
            await self.opened.wait()
            return outcomes

        monkeypatch.setattr(DeadLetterWriter, "_publish", publish)


async def _reject(broker: Broker, topic: str, limit: int = 1) -> list[str]:
    given = await ReceiveSome("billing", (topic,), "ann", limit, 0, 60_000, 0).perform(broker)
    await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
    return [each.value for each in given]


def test_a_message_of_a_topic_that_was_made_anew_has_a_letter_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(broker: Broker) -> None:
        gate = Gate(monkeypatch)
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        await PublishValue("orders", "old", None).perform(broker)
        await _reject(broker, "orders")
        await gate.reached.wait()
        await delete_topic(broker.topics, CALLER, "orders")
        await MakeTopic("orders", 1).perform(broker)
        await PublishValue("orders", "new", None).perform(broker)
        assert await _reject(broker, "orders") == ["new"]
        gate.opened.set()
        await let_pass(10)
        assert flight_states(broker) == []
        letters = await ReadLetters("orders.dlq").perform(broker)
        assert letters == [Letter("billing", "old"), Letter("billing", "new")]

    live(SimDisk(1), 1, act, stops=True)


async def _seek_to_start(broker: Broker) -> None:
    await broker.queues.submit("billing", Seek("billing", TopicPartition("orders", 0), 0, NO_EPOCH))


async def _delete_group(broker: Broker) -> None:
    await delete_queue(broker.queues, CALLER, "billing")


@pytest.mark.parametrize("move", [_seek_to_start, _delete_group])
def test_no_letter_is_written_of_a_message_that_its_group_gets_again(move: Callable[[Broker], Awaitable[None]]) -> None:
    async def act(broker: Broker, delay_s: float) -> bool:
        """Move the group a while after a message died; return whether its letter was written before that."""
        await MakeTopic("orders", 1).perform(broker)
        await PublishValue("orders", "v", None).perform(broker)
        await _reject(broker, "orders")
        await let_pass(delay_s)
        has_letter = (
            "orders.dlq" in broker.topics.by_name and broker.topics.topic("orders.dlq").partition(0).log.end_offset > 0
        )
        await move(broker)
        await let_pass(5)
        letters = len(await ReadLetters("orders.dlq").perform(broker)) if "orders.dlq" in broker.topics.by_name else 0
        assert letters == has_letter
        assert len(await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)) == 1
        return has_letter

    has_letter: list[bool] = []
    for number in range(40):

        async def act_now(broker: Broker, delay_s: float = number * 0.0005) -> None:
            has_letter.append(await act(broker, delay_s))

        live(SimDisk(1), 1, act_now, stops=True)
    assert 5 < has_letter.count(False) < 40, "some are moved before their letter is written, and some behind that"


def test_what_cannot_be_buried_is_tried_again_by_time_and_not_by_what_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk(1)
    disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)
    tried = 0
    real = DeadLetterWriter._publish

    async def publish(undertaker: DeadLetterWriter, *which: Any) -> Any:
        nonlocal tried
        tried += 1
        return await real(undertaker, *which)

    monkeypatch.setattr(DeadLetterWriter, "_publish", publish)

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq", "others"):
            await MakeTopic(topic, 1).perform(broker)
        await PublishValue("orders", "v", None).perform(broker)
        for number in range(50):
            await PublishValue("others", f"v{number}", None).perform(broker)
        await _reject(broker, "orders")
        await let_pass(2)
        given = await ReceiveSome("billing", ("others",), "ann", 50, 0, 60_000, 0).perform(broker)
        before = tried
        for each in given:
            await SettleSome("billing", (each,), AckType.ACK).perform(broker)
        # All that takes less than a second.
        assert tried - before <= 1
        before = tried
        await let_pass(10)
        assert 9 <= tried - before <= 11
        disk.heal()
        await let_pass(2)
        assert flight_states(broker) == []
        assert broker.queues.dead_letter_troubles == {}

    live(disk, 1, act, stops=True)


def test_letters_of_a_bounded_number_of_partitions_are_in_hand_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once: list[int] = []
    now = 0
    real = DeadLetterWriter._bury_some

    async def bury_some(undertaker: DeadLetterWriter, *which: Any) -> Any:
        nonlocal now
        now += 1
        at_once.append(now)
        try:
            return await real(undertaker, *which)
        finally:
            now -= 1

    monkeypatch.setattr(DeadLetterWriter, "_bury_some", bury_some)

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 30).perform(broker)
        for index in range(30):
            section = Section(broker.topics.topic("orders").partition(index), build_batch([NewRecord(1, None, b"v")]))
            await publish_sections(broker.messages, CALLER, Acks.ALL, [section])
        await SetQueue("billing", QueueSettings(breaker_ratio=1)).perform(broker)
        assert len(await _reject(broker, "orders", 30)) == 30
        await let_pass(10)
        assert len(await ReadLetters("orders.dlq").perform(broker)) == 30

    live(SimDisk(1), 1, act, stops=True)
    assert max(at_once) == 8
