"""Disks that take nothing for a while: dead messages stay, redrives wait and say why, and both go on afterwards."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import PurePath

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.events import DeadLettersFailed, RedriveStalled
from goqueue.broker.messages import NewMessage, Turns
from goqueue.broker.redrives import find_redrive
from goqueue.broker.transactional_messages import Writer, publish_in_transaction
from goqueue.broker.transactions import abort_transaction, init_transactions
from goqueue.errors import Conflict
from goqueue.machines.delivery_values import FlightState, Verdict
from goqueue.machines.redrive_values import Moves, Redrive, RedriveState, Terms
from goqueue.model.dead_letters import GROUP_HEADER
from goqueue.model.queue_settings import QueueSettings
from goqueue.observe.queue_metrics import look_at_queue_groups
from goqueue.records.layout import HEADER_BYTES
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, GrowTopic, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Given, Letter, PublishValue, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.redrive_calls import ReadCopies, StartRedrive, WriteLetter


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not fact():
            await let_pass(0.1)


async def _reject_one(broker: Broker) -> None:
    await MakeTopic("orders", 1).perform(broker)
    await MakeTopic("orders.dlq", 1).perform(broker)
    await PublishValue("orders", "v1", None).perform(broker)
    given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
    await SettleSome("billing", tuple(given), Verdict.REJECT).perform(broker)


def _states(broker: Broker) -> list[FlightState]:
    return [
        flight.state
        for machine in broker.queues.machines
        for group in machine.groups.values()
        for window in group.windows.values()
        for chunk in window.chunks.values()
        for flight in chunk.flights.values()
    ]


def test_a_dead_message_stays_until_its_letter_can_be_written() -> None:
    disk = SimDisk(1)
    fault = disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)

    async def act(broker: Broker) -> None:
        await _reject_one(broker)
        await let_pass(5)
        assert _states(broker) == [FlightState.DEAD]
        assert await ReadLetters("orders.dlq").perform(broker) == []
        disk.heal()
        await _until(lambda: _states(broker) == [])
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


def test_a_letter_is_written_once_though_its_message_cannot_be_settled() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await MakeTopic("orders.dlq", 1).perform(broker)
        await PublishValue("orders", "v1", None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        # What says that the message is dead is written; what says that it is buried is not, for a while.
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=1, times=3)
        await SettleSome("billing", tuple(given), Verdict.REJECT).perform(broker)
        await _until(lambda: _states(broker) == [])
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "v1")]

    live(disk, 1, act, stops=True)


def test_a_letter_is_written_once_though_others_are_settled_before_its_message_can_be() -> None:
    disk = SimDisk(1)
    # As much as becomes letters at once, and all of it lies before the message whose letter is written first.
    large = [f"{number}" * 900_000 for number in range(5)]

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        for value in (*large, "small"):
            await PublishValue("orders", value, None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 6, 0, 60_000, 0).perform(broker)
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=1, times=None)
        await SettleSome("billing", tuple(given[5:]), Verdict.REJECT).perform(broker)
        while not await ReadLetters("orders.dlq").perform(broker):
            await let_pass(0.01)
        disk.heal()
        await SettleSome("billing", tuple(given[:5]), Verdict.REJECT).perform(broker)
        await _until(lambda: _states(broker) == [])
        letters = await ReadLetters("orders.dlq").perform(broker)
        assert letters == [Letter("billing", value) for value in ("small", *large)]

    live(disk, 1, act, stops=True)


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("homes", [["graves"], ["graves", "tombs"], ["graves", ""]])
def test_a_letter_is_written_once_though_letters_go_elsewhere_before_its_message_is_settled(
    homes: list[str], is_killed: bool
) -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        await PublishValue("orders", "v1", None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        # What says that the message is dead is written, and its letter; what says that it is buried is not.
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=1, times=None)
        await SettleSome("billing", tuple(given), Verdict.REJECT).perform(broker)
        while not await ReadLetters("orders.dlq").perform(broker):
            await let_pass(0.01)
        disk.heal()
        for home in homes:
            await SetQueue("billing", QueueSettings(dead_letters=home)).perform(broker)
        assert _states(broker) == [FlightState.DEAD]
        if not is_killed:
            await go_on(broker)

    async def go_on(broker: Broker) -> None:
        await _until(lambda: _states(broker) == [])
        written = [await ReadLetters(each).perform(broker) for each in ("orders.dlq", "graves", "tombs")]
        assert written == [[Letter("billing", "v1")], [], []]

    live(disk, 1, act)
    if is_killed:
        disk.kill()
        live(disk, 2, go_on, stops=True)


def test_a_letter_goes_elsewhere_if_it_cannot_be_written_where_it_was_to_go() -> None:
    disk = SimDisk(1)
    disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)

    async def act(broker: Broker) -> None:
        await _reject_one(broker)
        await let_pass(5)
        for number in range(10):
            await SetQueue("billing", QueueSettings(dead_letters=f"never{number}")).perform(broker)
        # Where letters may be that nobody knows of is remembered, up to a limit.
        with pytest.raises(Conflict):
            await SetQueue("billing", QueueSettings(dead_letters="graves")).perform(broker)
        await _until(lambda: _states(broker) == [])
        assert await ReadLetters("never9").perform(broker) == [Letter("billing", "v1")]
        await SetQueue("billing", QueueSettings(dead_letters="graves")).perform(broker)
        assert [group.letters_before for machine in broker.queues.machines for group in machine.groups.values()] == [()]

    live(disk, 1, act, stops=True)


def test_a_letter_is_written_once_though_the_clock_was_set_back_since() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        await SetQueue("billing", QueueSettings(retries=0)).perform(broker)
        for value in ("slow", "quick"):
            await PublishValue("orders", value, None).perform(broker)
        await ReceiveSome("billing", ("orders",), "ann", 1, 0, 10_000, 0).perform(broker)
        await let_pass(9)
        # Its lease ends, which is stored, and its letter is written; what says that it is buried is not.
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=1, times=None)
        await let_pass(3)
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "slow")]

    async def go_on(broker: Broker) -> None:
        given = await ReceiveSome("billing", ("orders",), "bob", 1, 0, 60_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), Verdict.REJECT).perform(broker)
        # By this clock, the lease lasts as long as it did in all.
        await let_pass(30)
        assert _states(broker) == []
        letters = await ReadLetters("orders.dlq").perform(broker)
        assert letters == [Letter("billing", "slow"), Letter("billing", "quick")]

    live(disk, 1, act)
    disk.heal()
    live(disk, 2, go_on, stops=True, clock_jump_ms=-3_600_000)


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
        assert _states(broker) == [FlightState.LEASED]
        assert await ReadLetters("orders.dlq").perform(broker) == []

    async def go_on(broker: Broker) -> None:
        # By this clock, its lease has not ended.
        await SettleSome("billing", tuple(given), Verdict.ACK).perform(broker)
        await let_pass(30)
        assert _states(broker) == []
        assert await ReadLetters("orders.dlq").perform(broker) == []

    live(disk, 1, act)
    disk.heal()
    live(disk, 2, go_on, stops=True, clock_jump_ms=-3_600_000)


def test_a_letter_is_written_once_though_its_topic_has_got_partitions_since() -> None:
    disk = SimDisk(1)
    values = [f"v{number}" for number in range(24)]

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 8).perform(broker)
        await MakeTopic("orders.dlq", 3).perform(broker)
        for value in values:
            await PublishValue("orders", value, value).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", len(values), 0, 60_000, 0).perform(broker)
        assert len({each.place for each in given}) > 4
        # What says that the messages are dead is written; what says that they are buried is not.
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=1, times=None)
        await SettleSome("billing", tuple(given), Verdict.REJECT).perform(broker)
        await let_pass(5)
        assert sorted(each.value for each in await ReadLetters("orders.dlq").perform(broker)) == sorted(values)
        await GrowTopic("orders.dlq", 7).perform(broker)

    async def go_on(broker: Broker) -> None:
        await _until(lambda: _states(broker) == [])
        assert sorted(each.value for each in await ReadLetters("orders.dlq").perform(broker)) == sorted(values)

    live(disk, 1, act)
    disk.heal()
    live(disk, 2, go_on, stops=True)


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
        await SettleSome("billing", tuple(given), Verdict.REJECT).perform(broker)
        await let_pass(5)
        (group,) = [group for machine in broker.queues.machines for group in machine.groups.values()]
        left = {where.partition: len(window.dead) for where, window in group.windows.items()}
        assert left == {0: sum(each.place.partition == 0 for each in given), 1: 0}

    live(disk, 1, act, stops=True)
    disk.fail(errno.EIO, operation="open", path=lambda path: "orders.dlq-0" in path.parts, times=None)
    live(disk, 2, go_on)


async def _open_a_transaction(broker: Broker, topic: str) -> None:
    identity = await init_transactions(broker, CALLER, "somebody", 600_000)
    messages = [NewMessage(None, b"open", [(GROUP_HEADER, b"others")])]
    await publish_in_transaction(broker, CALLER, Turns(), Writer("somebody", identity), topic, messages)


def test_an_open_transaction_hides_no_letter_from_whoever_looks_for_it() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await MakeTopic("orders.dlq", 1).perform(broker)
        await _open_a_transaction(broker, "orders.dlq")
        await PublishValue("orders", "v1", None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=1, times=None)
        await SettleSome("billing", tuple(given), Verdict.REJECT).perform(broker)
        await let_pass(5)

    async def go_on(broker: Broker) -> None:
        await _until(lambda: _states(broker) == [])
        await abort_transaction(broker, CALLER, "somebody")
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "v1")]

    live(disk, 1, act)
    disk.heal()
    live(disk, 2, go_on, stops=True)


def test_a_dead_message_that_cannot_be_read_keeps_no_other_back() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        for value in ("v1", "v2"):
            await PublishValue("orders", value, None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 2, 0, 60_000, 0).perform(broker)
        (path,) = [PurePath(each) for each in disk.tree() if "orders-0/" in each and each.endswith(".log")]
        # The length of the first record.
        disk.flip(path, HEADER_BYTES)
        await SettleSome("billing", tuple(given), Verdict.REJECT).perform(broker)
        await let_pass(5)
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "v2")]
        assert _states(broker) == [FlightState.DEAD]
        disk.flip(path, HEADER_BYTES)
        await _until(lambda: _states(broker) == [])
        assert Letter("billing", "v1") in await ReadLetters("orders.dlq").perform(broker)

    sink = live(disk, 1, act, stops=True)
    (failure,) = sink.of(DeadLettersFailed)
    assert (failure.group, failure.topic, failure.partition) == ("billing", "orders", 0)


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
        redrive_id = await StartRedrive("orders.dlq", Terms()).perform(broker)
        await let_pass(30)
        job, trouble = await find_redrive(broker, CALLER, redrive_id)
        assert (job.state, job.moves.moved) == (RedriveState.RUNNING, 0)
        assert trouble is not None
        assert "No space left" in trouble.error
        assert trouble.failures > 0
        assert (await look_at_queue_groups(broker)).redrives == {"running": 0, "stalled": 1, "cancelling": 0}
        disk.heal()
        await let_pass(60)
        job, trouble = await find_redrive(broker, CALLER, redrive_id)
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
        await StartRedrive("orders.dlq", Terms(rate=0.001)).perform(broker)
        await let_pass(1)

    async def go_on(broker: Broker) -> None:
        await let_pass(1)
        jobs.extend(job for machine in broker.redrives.machines for job in machine.all)
        # Counted is what this broker has done.
        assert (await look_at_queue_groups(broker)).redriven == {"orders.dlq": Moves(moved=1)}

    live(disk, 1, act, stops=True)
    live(disk, 2, go_on, stops=True)
    assert [(job.state, job.moves.moved) for job in jobs] == [(RedriveState.RUNNING, 2)]
