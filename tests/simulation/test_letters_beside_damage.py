"""Letters of which nobody knows whether they were written, in logs that are damaged: none is written twice."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.topics.admin import delete_topic
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.records.layout import headers
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Letter, PublishValue, ReadLetters, ReceiveSome, SettleSome
from tests.simulation.queue_stage import flight_states, publish_values, until

BEFORE, BEHIND = 50, 5
# The last byte of the offset, which no checksum covers, the version of the format, the first record, and what it says.
BYTES = [7, 16, 61, 100]


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _write_a_letter_among_others(broker: Broker, disk: SimDisk) -> None:
    """Have a letter between others, and not that its message is buried."""
    for topic in ("orders", "orders.dlq"):
        await MakeTopic(topic, 1).perform(broker)
    await publish_values(broker, ["of others"] * BEFORE, "orders.dlq")
    await PublishValue("orders", "v1", None).perform(broker)
    given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
    disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=2, times=None)
    await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
    await until(lambda: broker.topics.topic("orders.dlq").partition(0).high_watermark > BEFORE)
    await publish_values(broker, ["of others"] * BEHIND, "orders.dlq")


def _damage(disk: SimDisk, offset: int, byte: int) -> None:
    """Change a byte of the letter at an offset."""
    (path,) = [PurePath(each) for each in disk.tree() if "orders.dlq-0/" in each and each.endswith(".log")]
    disk.flip(path, [position for position, _ in headers(disk.read_file(path))][offset] + byte)


def _kill_and_damage(disk: SimDisk, offset: int, byte: int, *, is_vouched_for: bool = False) -> None:
    async def act(broker: Broker) -> None:
        await _write_a_letter_among_others(broker, disk)

    async def rest(broker: Broker) -> None:
        assert flight_states(broker) == [FlightState.DEAD]
        await let_pass(600)

    live(disk, 1, act)
    disk.kill()
    disk.heal()
    if is_vouched_for:
        # While the message itself cannot be read, an index file is written, and what it covers is not looked at again.
        disk.fail(errno.EIO, operation="open", path=lambda path: "orders-0" in path.parts, times=None)
        live(disk, 3, rest, stops=True)
        disk.heal()
    _damage(disk, offset, byte)


@pytest.mark.parametrize("byte", BYTES)
def test_a_letter_is_found_behind_an_older_one_that_is_damaged(byte: int) -> None:
    disk = SimDisk(1)

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        assert broker.topics.topic("orders.dlq").partition(0).log.end_offset == BEFORE + 1 + BEHIND

    _kill_and_damage(disk, 3, byte)
    live(disk, 2, go_on)


@pytest.mark.parametrize("is_vouched_for", [False, True])
@pytest.mark.parametrize("byte", BYTES)
def test_a_message_stays_while_what_may_be_its_letter_is_damaged(byte: int, is_vouched_for: bool) -> None:
    disk = SimDisk(1)

    async def go_on(broker: Broker) -> None:
        await let_pass(120)
        assert flight_states(broker) == [FlightState.DEAD]
        assert broker.topics.topic("orders.dlq").partition(0).log.end_offset == BEFORE + 1 + BEHIND
        await delete_topic(broker.topics, CALLER, "orders.dlq")
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "v1")]

    _kill_and_damage(disk, BEFORE, byte, is_vouched_for=is_vouched_for)
    live(disk, 2, go_on)
