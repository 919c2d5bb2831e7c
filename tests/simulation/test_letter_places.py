"""Where letters may lie: that is known until nobody is in doubt any more, and keeps nobody waiting who is not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import PurePath
from uuid import UUID

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.dead_letters.unconfirmed import UnconfirmedDeadLetters
from goqueue.machines.groups.offsets import NO_EPOCH
from goqueue.machines.queues.commands import Seek
from goqueue.machines.queues.values import AckType, FlightState, LetterPlace
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition
from goqueue.records.layout import HEADER_BYTES
from goqueue.runtime.waiters import turns
from goqueue.testing import SimDisk
from tests.simulation.group_calls import MakeTopic
from tests.simulation.group_stage import bury_one_by_one, let_pass, live, shrink
from tests.simulation.queue_calls import Given, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import (
    flight_states,
    letter_places,
    publish_values,
    until,
    write_letters_and_no_more,
)

PLACES_MAX = 10
STEPS_MAX = 1_000_000


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _receive(broker: Broker, count: int, homes: list[str]) -> list[Given]:
    """Return so many messages, all leased; there are topics for their letters."""
    for topic in ("orders", *homes):
        await MakeTopic(topic, 1).perform(broker)
    await publish_values(broker, [f"v{number}" for number in range(1, count + 1)])
    return await ReceiveSome("billing", ("orders",), "ann", count, 0, 6_000_000, 0).perform(broker)


async def _send_letters_to(broker: Broker, home: str) -> None:
    await SetQueue("billing", QueueSettings(breaker_ratio=1, dead_letters=home)).perform(broker)


async def _values_of_letters(broker: Broker, *homes: str) -> list[str]:
    return sorted([letter.value for home in homes for letter in await ReadLetters(home).perform(broker)])


@pytest.mark.parametrize("moment", [0, 3, 13, 50, 150])
def test_a_letter_is_written_once_though_somebody_seeks_while_it_is_looked_for(moment: int) -> None:
    disk = SimDisk(1)
    # So few that it is not stored anew where letters may lie.
    others = 200

    async def act(broker: Broker) -> None:
        given = await _receive(broker, 2, ["orders.dlq"])
        await SettleSome("billing", (given[0],), AckType.REJECT).perform(broker)
        await until(lambda: FlightState.DEAD not in flight_states(broker))
        await publish_values(broker, ["of others"] * others, "orders.dlq")
        # What says that it is dead is written, its letter as well, and not that it is buried.
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=1, times=None)
        await SettleSome("billing", (given[1],), AckType.REJECT).perform(broker)
        await until(lambda: broker.topics.topic("orders.dlq").partition(0).high_watermark == 2 + others)
        assert flight_states(broker) == [FlightState.DEAD]

    async def go_on(broker: Broker) -> None:
        await turns(moment)
        await broker.queues.submit("billing", Seek("billing", TopicPartition("orders", 0), 0, NO_EPOCH))
        await let_pass(30)
        assert broker.topics.topic("orders.dlq").partition(0).log.end_offset == 2 + others

    live(disk, 1, act, steps_max=STEPS_MAX)
    disk.kill()
    disk.heal()
    live(disk, 2, go_on, steps_max=STEPS_MAX)


def test_a_message_that_cannot_be_read_keeps_no_other_back_wherever_letters_go() -> None:
    disk = SimDisk(1)
    homes = ["orders.dlq", *[f"graves{number}" for number in range(PLACES_MAX + 2)]]
    given: list[Given] = []

    async def act(broker: Broker) -> None:
        given.extend(await _receive(broker, 20, homes))
        # One letter is written, so that it is known where letters may lie; then there is no room for another one.
        await SettleSome("billing", (given[19],), AckType.REJECT).perform(broker)
        await until(lambda: len(flight_states(broker)) == 19)
        disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)
        await SettleSome("billing", (given[0],), AckType.REJECT).perform(broker)
        await let_pass(5)

    async def go_on(broker: Broker) -> None:
        for number, home in enumerate(homes[1:], 1):
            await _send_letters_to(broker, home)
            await SettleSome("billing", (given[number],), AckType.REJECT).perform(broker)
            await let_pass(120)
        # The batch of these messages cannot be read, so their letters carry it, and none of them waits.
        assert flight_states(broker).count(FlightState.DEAD) == 0

    live(disk, 1, act, stops=True)
    disk.heal()
    (path,) = [PurePath(each) for each in disk.tree() if "orders-0/" in each and each.endswith(".log")]
    disk.flip(path, HEADER_BYTES)
    live(disk, 2, go_on, steps_max=STEPS_MAX)


def test_no_message_waits_for_places_that_all_can_be_looked_at() -> None:
    disk = SimDisk(1)
    homes = ["orders.dlq", *[f"graves{number}" for number in range(PLACES_MAX)]]
    # More than are buried at once, and all of them come before the one that is in doubt.
    first = 101
    given: list[Given] = []

    async def act(broker: Broker) -> None:
        await _send_letters_to(broker, "")
        given.extend(await _receive(broker, first + len(homes), homes))
        await write_letters_and_no_more(broker, disk, given[-1:])

    async def go_elsewhere(broker: Broker) -> None:
        for number, home in enumerate(homes[1:-1]):
            await _send_letters_to(broker, home)
            await SettleSome("billing", (given[first + number],), AckType.REJECT).perform(broker)
            await until(lambda: flight_states(broker).count(FlightState.DEAD) == 1)
        assert len(letter_places(broker)) == PLACES_MAX
        await _send_letters_to(broker, homes[-1])
        await SettleSome("billing", tuple(given[:first]), AckType.REJECT).perform(broker)
        await let_pass(5)

    async def go_on(broker: Broker) -> None:
        await until(lambda: FlightState.DEAD not in flight_states(broker))

    live(disk, 1, act, steps_max=STEPS_MAX)
    disk.kill()
    disk.heal()
    disk.fail(errno.EIO, operation="open", path=lambda path: "orders.dlq-0" in path.parts, times=None)
    live(disk, 2, go_elsewhere, steps_max=STEPS_MAX)
    disk.kill()
    disk.heal()
    live(disk, 3, go_on, steps_max=STEPS_MAX)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_letter_sent_to_a_log_that_went_offline_is_looked_for_there_though_others_went_elsewhere(seed: int) -> None:
    disk = SimDisk(seed)

    async def act(broker: Broker) -> None:
        given = await _receive(broker, 2, ["orders.dlq", "graves"])
        disk.fail(errno.EIO, operation="sync", path="*orders.dlq-0/*.log")
        await SettleSome("billing", tuple(given[:1]), AckType.REJECT).perform(broker)
        await let_pass(5)
        await _send_letters_to(broker, "graves")
        await SettleSome("billing", tuple(given[1:]), AckType.REJECT).perform(broker)
        await until(lambda: flight_states(broker) == [FlightState.DEAD])

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        assert await _values_of_letters(broker, "orders.dlq", "graves") == ["v1", "v2"]

    live(disk, seed, act)
    disk.kill()
    disk.heal()
    live(disk, 1000 + seed, go_on, stops=True)


def test_where_a_letter_was_found_is_known_until_its_message_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    bury_one_by_one(monkeypatch)
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        given = await _receive(broker, 3, ["orders.dlq", "graves"])
        await write_letters_and_no_more(broker, disk, given[2:])
        disk.heal()
        await _send_letters_to(broker, "graves")
        await SettleSome("billing", tuple(given[:2]), AckType.REJECT).perform(broker)
        assert flight_states(broker) == [FlightState.DEAD] * 3

    async def go_on_a_bit(broker: Broker) -> None:
        # The first one is buried elsewhere, and then there is no room for anything.
        await _soon(lambda: broker.topics.topic("graves").partition(0).high_watermark == 1)
        await _soon(lambda: flight_states(broker) == [FlightState.DEAD] * 2)
        disk.fail(errno.ENOSPC, operation="write", path="*.log", times=None)
        await let_pass(5)

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        assert await _values_of_letters(broker, "orders.dlq", "graves") == ["v1", "v2", "v3"]

    live(disk, 1, act)
    for seed, then in ((2, go_on_a_bit), (3, go_on)):
        disk.kill()
        disk.heal()
        live(disk, seed, then)


def _doubtful_window(*places: LetterPlace) -> QueueWindow:
    """Return what a group has in a partition where a message was dead at the start."""
    window = QueueWindow(UUID(int=1), 0, 10)
    window.dead[5] = None
    window.old_dead.add(5)
    window.letter_places = places
    return window


def test_a_place_that_has_lost_its_end_with_the_power_begins_where_the_next_letter_is_written() -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders.dlq", 1).perform(broker)
        home = broker.topics.topic("orders.dlq").topic.id
        doubts, which = UnconfirmedDeadLetters(broker.dead_letters), ("billing", TopicPartition("orders", 0))
        before, behind = LetterPlace(home, 0, 100), LetterPlace(home, 0, 150)
        lost = LetterPlace(home, 0, 50)
        assert doubts.places(which, _doubtful_window(before), behind, ()) == (before,), "it is found there as well"
        assert doubts.places(which, _doubtful_window(before), lost, ()) == (lost,)
        # Without a doubt the next place is as good as the one before, and stored only if that saves much.
        assert doubts.places(which, _doubtful_window(before), lost, [5]) == (lost,)

    live(SimDisk(1), 1, act)


def test_places_in_topics_that_were_deleted_leave_their_room_to_others() -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders.dlq", 1).perform(broker)
        target = LetterPlace(broker.topics.topic("orders.dlq").topic.id, 0, 0)
        window = _doubtful_window(*[LetterPlace(UUID(int=number), 0, 0) for number in range(100, 100 + PLACES_MAX)])
        which = "billing", TopicPartition("orders", 0)
        assert UnconfirmedDeadLetters(broker.dead_letters).places(which, window, target, ()) == (target,)

    live(SimDisk(1), 1, act)


async def _soon(fact: Callable[[], bool]) -> None:
    """Let no more time pass than it takes until something is so."""
    while not fact():
        await let_pass(0.0002)
