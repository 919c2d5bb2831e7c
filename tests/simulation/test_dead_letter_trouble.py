"""Disks that take nothing for a while: dead messages stay, redrives wait and say why, and both go on afterwards."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from pathlib import PurePath
from traceback import walk_tb
from typing import Any

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.dead_letters.browsing import BrowseRequest, browse_dead_letters
from goqueue.broker.dead_letters.writer import DeadLetterWriter
from goqueue.broker.events import DeadLettersFailed, RedriveStalled
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.redrives.admin import find_redrive
from goqueue.errors import DiskFull, GoQueueError
from goqueue.machines.queues.values import AckType, FlightState, LetterPlace
from goqueue.machines.redrives.values import Moves, Redrive, RedriveTerms
from goqueue.model.dead_letter_selection import Order
from goqueue.model.dead_letters import UNREADABLE_HEADER
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.redrives import RedriveState
from goqueue.observe.queue_metrics import look_at_queue_groups
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import HEADER_BYTES
from goqueue.runtime.partition import Partition
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Given, Letter, PublishValue, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import flight_states, letter_places, until
from tests.simulation.redrive_calls import ReadCopies, StartRedrive, WriteLetter


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _reject_one(broker: Broker) -> None:
    await MakeTopic("orders", 1).perform(broker)
    await MakeTopic("orders.dlq", 1).perform(broker)
    await PublishValue("orders", "v1", None).perform(broker)
    given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
    await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)


def test_a_dead_message_stays_until_its_letter_can_be_written() -> None:
    disk = SimDisk(1)
    fault = disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)

    async def act(broker: Broker) -> None:
        await _reject_one(broker)
        await let_pass(5)
        assert flight_states(broker) == [FlightState.DEAD]
        assert await ReadLetters("orders.dlq").perform(broker) == []
        disk.heal()
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "v1")]

    assert fault is not None
    sink = live(disk, 1, act, stops=True)
    # Trouble that lasts is not told again and again.
    (failure,) = sink.of(DeadLettersFailed)
    assert (failure.group, failure.topic, failure.partition) == ("billing", "orders", 0)


def test_trouble_that_lasts_is_told_once_a_minute() -> None:
    disk = SimDisk(1)
    disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)

    async def act(broker: Broker) -> None:
        await _reject_one(broker)
        await let_pass(150)

    sink = live(disk, 1, act)
    assert len(sink.of(DeadLettersFailed)) == 3


@pytest.mark.parametrize("is_doubtful", [True, False])
def test_trouble_that_lasts_keeps_nobody_in_memory_who_had_it(is_doubtful: bool) -> None:
    disk = SimDisk(1)
    given: list[Given] = []

    async def receive(broker: Broker) -> None:
        given.extend(await ReceiveSome("billing", ("orders",), "ann", 1, 0, 600_000, 0).perform(broker))

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        await PublishValue("orders", "v1", None).perform(broker)
        await PublishValue("orders.dlq", "not a letter", None).perform(broker)
        if is_doubtful:
            await receive(broker)

    async def go_on(broker: Broker) -> None:
        if not is_doubtful:
            await receive(broker)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(100)
        assert flight_states(broker) == [FlightState.DEAD]
        with pytest.raises(GoQueueError) as raised:
            broker.topics.topic("orders.dlq").partition(0)
        fault = raised.value
        assert len(list(walk_tb(fault.__traceback__))) < 20

    live(disk, 1, act)
    disk.fail(errno.EIO, operation="open", path=lambda path: "orders.dlq-0" in path.parts, times=None)
    live(disk, 2, go_on)


def test_what_takes_long_in_vain_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    async def fail_slowly(undertaker: DeadLetterWriter, partition: Partition, letters: Sequence[NewRecord]) -> Any:
        nonlocal attempts
        del undertaker, partition, letters
        attempts += 1
        await let_pass(0.5)
        raise DiskFull("there is no room")

    async def act(broker: Broker) -> None:
        monkeypatch.setattr(DeadLetterWriter, "_publish", fail_slowly)
        await _reject_one(broker)
        await let_pass(60)
        assert 8 <= attempts <= 12

    live(SimDisk(1), 1, act)


def test_others_have_their_turn_while_many_are_tried_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk(1)
    given: list[Given] = []
    # In the order in which they have it: the undertaker, and somebody else who wants it whenever that has begun.
    whose: list[str] = []
    real = DeadLetterWriter._have_turn

    async def have_turn(undertaker: DeadLetterWriter, burial: Any) -> bool:
        whose.append("undertaker")
        asyncio.get_running_loop().call_soon(whose.append, "other")
        return await real(undertaker, burial)

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        await SetQueue("billing", QueueSettings(breaker_ratio=1)).perform(broker)
        batch = build_batch([NewRecord(broker.core.clock.now_ms(), None, b"v")] * 500)
        await publish_sections(
            broker.messages, CALLER, Acks.ALL, [Section(broker.topics.topic("orders").partition(0), batch)]
        )
        given.extend(await ReceiveSome("billing", ("orders",), "ann", 500, 0, 60_000, 0).perform(broker))

    async def go_on(broker: Broker) -> None:
        monkeypatch.setattr(DeadLetterWriter, "_have_turn", have_turn)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(5)
        assert flight_states(broker) == [FlightState.DEAD] * 500
        # It takes 100 at a time, and asks once more.
        assert whose.count("undertaker") >= 6
        assert "other" in whose[:6]

    live(disk, 1, act, stops=True)
    disk.fail(errno.EIO, operation="open", path=lambda path: "orders.dlq-0" in path.parts, times=None)
    live(disk, 2, go_on)


def test_a_letter_goes_elsewhere_if_it_cannot_be_written_where_it_was_to_go() -> None:
    disk = SimDisk(1)
    disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)

    async def act(broker: Broker) -> None:
        await _reject_one(broker)
        await let_pass(5)
        await SetQueue("billing", QueueSettings(dead_letters="graves")).perform(broker)
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("graves").perform(broker) == [Letter("billing", "v1")]
        assert await ReadLetters("orders.dlq").perform(broker) == []
        assert letter_places(broker) == [LetterPlace(broker.topics.topic("graves").topic.id, 0, 1)]

    live(disk, 1, act, stops=True)


@pytest.mark.parametrize("stops", [True, False])
def test_a_letter_goes_elsewhere_if_the_partition_where_it_was_to_go_cannot_be_used(stops: bool) -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        await PublishValue("orders", "v1", None).perform(broker)
        await PublishValue("orders.dlq", "not a letter", None).perform(broker)

    async def go_on(broker: Broker) -> None:
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(5)
        assert flight_states(broker) == [FlightState.DEAD]
        await SetQueue("billing", QueueSettings(dead_letters="graves")).perform(broker)
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("graves").perform(broker) == [Letter("billing", "v1")]

    live(disk, 1, act, stops=stops)
    disk.fail(errno.EIO, operation="open", path=lambda path: "orders.dlq-0" in path.parts, times=None)
    live(disk, 2, go_on)


def test_a_message_whose_end_cannot_be_stored_has_no_letter_and_may_still_be_done() -> None:
    disk = SimDisk(1)
    given: list[Given] = []

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        await SetQueue("billing", QueueSettings(retries=0)).perform(broker)
        await PublishValue("orders", "slow", None).perform(broker)
        given.extend(await ReceiveSome("billing", ("orders",), "ann", 1, 0, 10_000, 0).perform(broker))
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", times=None)
        await let_pass(30)
        assert flight_states(broker) == [FlightState.LEASED]
        assert await ReadLetters("orders.dlq").perform(broker) == []

    async def go_on(broker: Broker) -> None:
        # By this clock, its lease has not ended.
        await SettleSome("billing", tuple(given), AckType.ACK).perform(broker)
        await let_pass(30)
        assert flight_states(broker) == []
        assert await ReadLetters("orders.dlq").perform(broker) == []

    live(disk, 1, act)
    disk.heal()
    live(disk, 2, go_on, stops=True, clock_jump_ms=-3_600_000)


def test_a_partition_for_letters_that_cannot_be_used_keeps_none_from_the_others() -> None:
    disk = SimDisk(1)
    values = [f"v{number}" for number in range(8)]

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 2).perform(broker)
        for value in values:
            await PublishValue("orders", value, value).perform(broker)

    async def go_on(broker: Broker) -> None:
        given = await ReceiveSome("billing", ("orders",), "ann", len(values), 0, 60_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(5)
        (group,) = [group for machine in broker.queues.machines for group in machine.groups.values()]
        left = {where.partition: len(window.dead) for where, window in group.windows.items()}
        assert left == {0: sum(each.place.partition == 0 for each in given), 1: 0}

    live(disk, 1, act, stops=True)
    disk.fail(errno.EIO, operation="open", path=lambda path: "orders.dlq-0" in path.parts, times=None)
    live(disk, 2, go_on)


def _damage_the_first_message(disk: SimDisk) -> None:
    (path,) = [PurePath(each) for each in disk.tree() if "orders-0/" in each and each.endswith(".log")]
    # The length of the record.
    disk.flip(path, HEADER_BYTES)


def test_a_dead_message_that_cannot_be_read_becomes_a_letter_with_its_batch_and_keeps_no_other_back() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        for value in ("v1", "v2"):
            await PublishValue("orders", value, None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 2, 0, 60_000, 0).perform(broker)
        _damage_the_first_message(disk)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await until(lambda: flight_states(broker) == [])
        page = await browse_dead_letters(broker.dead_letters, CALLER, "orders", BrowseRequest(order=Order.OLDEST))
        first, second = page.letters
        assert [name for name, _ in first.record.headers].count(UNREADABLE_HEADER) == 1
        assert (first.cause.reason, first.cause.offset) == ("rejected", 0)
        assert (second.record.value, second.cause.offset) == (b"v2", 1)

    sink = live(disk, 1, act, stops=True)
    assert not sink.of(DeadLettersFailed)


async def _write_letters(broker: Broker) -> None:
    for topic in ("orders", "orders.dlq"):
        await MakeTopic(topic, 1).perform(broker)
    for number in range(5):
        await WriteLetter("orders.dlq", f"v{number}", "rejected", "orders", 0).perform(broker)


def test_a_redrive_waits_for_its_target_and_says_why() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await _write_letters(broker)
        disk.fail(errno.ENOSPC, operation="write", path="*orders-0/*.log", times=None)
        redrive_id = await StartRedrive("orders.dlq", RedriveTerms()).perform(broker)
        await let_pass(30)
        job, trouble = await find_redrive(broker.redrives, CALLER, redrive_id)
        assert (job.state, job.moves.moved) == (RedriveState.RUNNING, 0)
        assert trouble is not None
        assert "No space left" in trouble.error
        assert trouble.failures > 0
        assert (await look_at_queue_groups(broker)).redrives == {"running": 0, "stalled": 1, "cancelling": 0}
        disk.heal()
        await let_pass(60)
        job, trouble = await find_redrive(broker.redrives, CALLER, redrive_id)
        assert (job.state, job.moves.moved, trouble) == (RedriveState.DONE, 5, None)
        assert len(await ReadCopies("orders").perform(broker)) == 5
        told = await look_at_queue_groups(broker)
        assert told.redrives == {"running": 0, "stalled": 0, "cancelling": 0}
        assert told.redriven == {"orders.dlq": Moves(moved=5)}

    sink = live(disk, 1, act, stops=True)
    (stalled,) = sink.of(RedriveStalled)
    assert stalled.topic == "orders.dlq"


def test_a_broker_stops_though_a_redrive_waits() -> None:
    disk = SimDisk(1)
    jobs: list[Redrive] = []

    async def act(broker: Broker) -> None:
        await _write_letters(broker)
        await StartRedrive("orders.dlq", RedriveTerms(rate=0.001)).perform(broker)
        await let_pass(1)

    async def go_on(broker: Broker) -> None:
        await let_pass(1)
        jobs.extend(job for machine in broker.redrives.machines for job in machine.all)
        # Counted is what this broker has done.
        assert (await look_at_queue_groups(broker)).redriven == {"orders.dlq": Moves(moved=1)}

    live(disk, 1, act, stops=True)
    live(disk, 2, go_on, stops=True)
    assert [(job.state, job.moves.moved) for job in jobs] == [(RedriveState.RUNNING, 2)]
