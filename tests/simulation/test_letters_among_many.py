"""Letters of which nobody knows whether they were written, among very many others: there is one of each in the end."""

from __future__ import annotations

import errno

import pytest

from goqueue.broker.broker import Broker
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.model.queue_settings import QueueSettings
from goqueue.testing import SimDisk
from tests.simulation.group_calls import MakeTopic
from tests.simulation.group_stage import live, shrink
from tests.simulation.queue_calls import Given, Letter, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import flight_states, letter_places, publish_values, until, write_letters_and_no_more

# More than are looked at in any case.
MANY = 2_500
STEPS_MAX = 1_000_000


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _receive(broker: Broker, count: int) -> list[Given]:
    """Publish messages, and lease all of them."""
    for topic in ("orders", "orders.dlq"):
        await MakeTopic(topic, 1).perform(broker)
    await SetQueue("billing", QueueSettings(in_flight_max=MANY)).perform(broker)
    await publish_values(broker, [f"v{number}" for number in range(count)])
    given: list[Given] = []
    while len(given) < count:
        given += await ReceiveSome("billing", ("orders",), "ann", 1_000, 0, 600_000, 0).perform(broker)
    return given


def test_a_letter_is_written_once_though_very_many_get_theirs_after_a_start_before_it_is_looked_for() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        given = await _receive(broker, MANY)
        # The last one dies first; after a start, the dead have their turns in the order of their offsets.
        await write_letters_and_no_more(broker, disk, given[-1:])
        disk.heal()
        for start in range(0, MANY - 1, 500):
            dying = tuple(given[start : min(start + 500, MANY - 1)])
            await SettleSome("billing", dying, AckType.REJECT).perform(broker)
        assert flight_states(broker) == [FlightState.DEAD] * MANY

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        letters = await ReadLetters("orders.dlq").perform(broker)
        assert letters == [Letter("billing", f"v{number}") for number in (MANY - 1, *range(MANY - 1))]

    live(disk, 1, act, steps_max=STEPS_MAX)
    disk.kill()
    live(disk, 2, go_on, stops=True, steps_max=STEPS_MAX)


def test_letters_of_others_are_not_looked_at_if_they_were_written_before() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        first, *others = await _receive(broker, 2)
        await SettleSome("billing", (first,), AckType.REJECT).perform(broker)
        await until(lambda: flight_states(broker) == [FlightState.LEASED])
        assert [place.start for place in letter_places(broker)] == [1]
        await publish_values(broker, ["of others"] * MANY, "orders.dlq")
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=2, times=None)
        await SettleSome("billing", tuple(others), AckType.REJECT).perform(broker)
        await until(lambda: broker.topics.topic("orders.dlq").partition(0).high_watermark == 2 + MANY)
        assert [place.start for place in letter_places(broker)] == [1 + MANY]

    live(disk, 1, act, steps_max=STEPS_MAX)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_letter_is_written_once_though_very_many_of_others_are_before_its_message_is_settled(is_killed: bool) -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await write_letters_and_no_more(broker, disk, await _receive(broker, 1))
        await publish_values(broker, ["of others"] * MANY, "orders.dlq")
        disk.heal()
        assert flight_states(broker) == [FlightState.DEAD]
        if not is_killed:
            await go_on(broker)

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        assert broker.topics.topic("orders.dlq").partition(0).high_watermark == 1 + MANY

    live(disk, 1, act, steps_max=STEPS_MAX)
    if is_killed:
        disk.kill()
        live(disk, 2, go_on, stops=True, steps_max=STEPS_MAX)
