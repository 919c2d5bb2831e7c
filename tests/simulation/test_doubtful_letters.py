"""Letters of which nobody knows whether they were written: there is one of each in the end."""

from __future__ import annotations

import errno

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.events import DeadLettersFailed
from goqueue.broker.messages.publish import NewMessage, PartitionTurns
from goqueue.broker.transactions.coordination import abort_transaction, init_transactions
from goqueue.broker.transactions.publish import TransactionWriter, publish_in_transaction
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.model.dead_letters import GROUP_HEADER
from goqueue.model.queue_settings import QueueSettings
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, GrowTopic, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.queue_calls import Given, Letter, PublishValue, ReadLetters, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_stage import flight_states, until, write_letters_and_no_more


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def test_a_letter_is_written_once_though_its_message_cannot_be_settled() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await MakeTopic("orders.dlq", 1).perform(broker)
        for value in ("v1", "v2"):
            await PublishValue("orders", value, None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 2, 0, 60_000, 0).perform(broker)
        # What says that the messages are dead is written; what says that they are buried is not, for a while.
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=2, times=3)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "v1"), Letter("billing", "v2")]

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
        await write_letters_and_no_more(broker, disk, given[5:])
        disk.heal()
        await SettleSome("billing", tuple(given[:5]), AckType.REJECT).perform(broker)
        await until(lambda: flight_states(broker) == [])
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
        await write_letters_and_no_more(broker, disk, given)
        disk.heal()
        for home in homes:
            await SetQueue("billing", QueueSettings(dead_letters=home)).perform(broker)
        assert flight_states(broker) == [FlightState.DEAD]
        if not is_killed:
            await go_on(broker)

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        written = [await ReadLetters(each).perform(broker) for each in ("orders.dlq", "graves", "tombs")]
        assert written == [[Letter("billing", "v1")], [], []]

    live(disk, 1, act)
    if is_killed:
        disk.kill()
        live(disk, 2, go_on, stops=True)


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
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=2, times=None)
        await let_pass(3)
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "slow")]

    async def go_on(broker: Broker) -> None:
        given = await ReceiveSome("billing", ("orders",), "bob", 1, 0, 60_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        # By this clock, the lease lasts as long as it did in all.
        await let_pass(30)
        assert flight_states(broker) == []
        letters = await ReadLetters("orders.dlq").perform(broker)
        assert letters == [Letter("billing", "slow"), Letter("billing", "quick")]

    live(disk, 1, act)
    disk.heal()
    live(disk, 2, go_on, stops=True, clock_jump_ms=-3_600_000)


def test_a_letter_is_written_once_though_its_topic_has_got_partitions_since() -> None:
    disk = SimDisk(1)
    values = [f"v{number}" for number in range(48)]

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 8).perform(broker)
        await MakeTopic("orders.dlq", 3).perform(broker)
        for value in values:
            await PublishValue("orders", value, value).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", len(values), 0, 60_000, 0).perform(broker)
        firsts = {each.place: each for each in given}
        assert len(firsts) > 4
        await SettleSome("billing", tuple(firsts.values()), AckType.REJECT).perform(broker)
        await until(lambda: FlightState.DEAD not in flight_states(broker))
        # What says that the others are dead is written; what says that they are buried is not.
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=1, times=None)
        others = tuple(each for each in given if each not in firsts.values())
        await SettleSome("billing", others, AckType.REJECT).perform(broker)
        await let_pass(5)
        assert sorted(each.value for each in await ReadLetters("orders.dlq").perform(broker)) == sorted(values)
        await GrowTopic("orders.dlq", 7).perform(broker)
        assert len(flight_states(broker)) == len(others)

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        assert sorted(each.value for each in await ReadLetters("orders.dlq").perform(broker)) == sorted(values)

    live(disk, 1, act)
    disk.heal()
    live(disk, 2, go_on, stops=True)


@pytest.mark.parametrize(
    "letters_go_elsewhere", [SetQueue("billing", QueueSettings(dead_letters="graves")), GrowTopic("orders.dlq", 2)]
)
def test_a_letter_that_cannot_be_looked_for_waits_alone(letters_go_elsewhere: SetQueue | GrowTopic) -> None:
    disk = SimDisk(1)
    given: list[Given] = []

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 2).perform(broker)
        await MakeTopic("orders.dlq", 1).perform(broker)
        for number in range(8):
            await PublishValue("orders", f"v{number}", f"v{number}").perform(broker)
        received = await ReceiveSome("billing", ("orders",), "ann", 8, 0, 60_000, 0).perform(broker)
        given.extend([each for each in received if each.place.partition == 1][:1])
        await write_letters_and_no_more(broker, disk, given)
        disk.heal()
        await letters_go_elsewhere.perform(broker)
        assert flight_states(broker).count(FlightState.DEAD) == 1

    async def go_on_without_the_first_letter(broker: Broker) -> None:
        await PublishValue("orders", "later", given[0].value).perform(broker)
        given.extend(await ReceiveSome("billing", ("orders",), "bob", 1, 0, 60_000, 0).perform(broker))
        assert [(each.value, each.place.partition) for each in given[1:]] == [("later", 1)]
        await SettleSome("billing", tuple(given[1:]), AckType.REJECT).perform(broker)
        await let_pass(5)
        (group,) = [group for machine in broker.queues.machines for group in machine.groups.values()]
        assert [dead for window in group.windows.values() for dead in window.dead] == [given[0].offset]

    async def go_on(broker: Broker) -> None:
        await until(lambda: FlightState.DEAD not in flight_states(broker))
        homes = [each for each in ("orders.dlq", "graves") if each in broker.topics.by_name]
        letters = [letter for home in homes for letter in await ReadLetters(home).perform(broker)]
        assert letters == [Letter("billing", each.value) for each in given]

    live(disk, 1, act)
    disk.kill()
    disk.fail(errno.EIO, operation="open", path=lambda path: "orders.dlq-0" in path.parts, times=None)
    sink = live(disk, 2, go_on_without_the_first_letter)
    assert [failure.partition for failure in sink.of(DeadLettersFailed)] == [1]
    disk.heal()
    disk.kill()
    live(disk, 3, go_on, stops=True)


def _dead(broker: Broker) -> list[int]:
    """Return the offsets of all dead messages."""
    groups = [group for machine in broker.queues.machines for group in machine.groups.values()]
    return [dead for group in groups for window in group.windows.values() for dead in window.dead]


def _keep_shut(disk: SimDisk, log: str) -> None:
    """Let a log not be opened."""
    disk.fail(errno.EIO, operation="open", path=lambda path: log in path.parts, times=None)


def test_a_letter_that_is_found_waits_for_no_other_place_to_be_looked_at() -> None:
    disk = SimDisk(1)
    given: list[Given] = []

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq", "graves"):
            await MakeTopic(topic, 1).perform(broker)
        for value in ("v1", "v2"):
            await PublishValue("orders", value, None).perform(broker)
        given.extend(await ReceiveSome("billing", ("orders",), "ann", 2, 0, 60_000, 0).perform(broker))
        await write_letters_and_no_more(broker, disk, given[:1])

    async def go_on_elsewhere(broker: Broker) -> None:
        await SetQueue("billing", QueueSettings(dead_letters="graves")).perform(broker)
        await write_letters_and_no_more(broker, disk, given[1:], "graves")
        assert _dead(broker) == [0, 1]

    async def go_on_without_the_first_letter(broker: Broker) -> None:
        await until(lambda: _dead(broker) == [0])

    async def go_on(broker: Broker) -> None:
        await until(lambda: _dead(broker) == [])
        written = [await ReadLetters(home).perform(broker) for home in ("orders.dlq", "graves")]
        assert written == [[Letter("billing", "v1")], [Letter("billing", "v2")]]

    live(disk, 1, act)
    for seed, then in enumerate([go_on_elsewhere, go_on_without_the_first_letter], start=2):
        disk.kill()
        disk.heal()
        _keep_shut(disk, "orders.dlq-0")
        live(disk, seed, then)
    disk.kill()
    disk.heal()
    live(disk, 4, go_on)


def test_a_letter_is_looked_for_again_where_it_could_not_be_for_a_while() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        await PublishValue("orders", "v1", None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        await write_letters_and_no_more(broker, disk, given)

    async def go_on(broker: Broker) -> None:
        disk.fail(errno.EIO, operation="read", path="*orders.dlq-0/*.log", times=None)
        await let_pass(5)
        assert _dead(broker) == [0]
        disk.heal()
        await until(lambda: _dead(broker) == [])
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "v1")]

    live(disk, 1, act)
    disk.kill()
    disk.heal()
    live(disk, 2, go_on)


def test_there_are_only_so_many_places_where_letters_may_lie() -> None:
    disk = SimDisk(1)
    homes = ["orders.dlq", *[f"graves{number}" for number in range(10)]]
    values = [f"v{number}" for number in range(len(homes))]

    async def reject_one(broker: Broker) -> None:
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)

    async def act(broker: Broker) -> None:
        for topic in ("orders", *homes):
            await MakeTopic(topic, 1).perform(broker)
        for value in values:
            await PublishValue("orders", value, None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        await write_letters_and_no_more(broker, disk, given)

    async def go_on_elsewhere(broker: Broker) -> None:
        for home in homes[1:-1]:
            await SetQueue("billing", QueueSettings(dead_letters=home)).perform(broker)
            await reject_one(broker)
            await until(lambda: _dead(broker) == [0])
        await SetQueue("billing", QueueSettings(dead_letters=homes[-1])).perform(broker)
        await reject_one(broker)
        await let_pass(5)
        assert _dead(broker) == [0, 10]
        await SetQueue("billing", QueueSettings(dead_letters=homes[-2])).perform(broker)
        await until(lambda: _dead(broker) == [0])

    async def go_on(broker: Broker) -> None:
        await until(lambda: _dead(broker) == [])
        written = [letter.value for home in homes for letter in await ReadLetters(home).perform(broker)]
        assert written == values

    live(disk, 1, act)
    disk.kill()
    disk.heal()
    _keep_shut(disk, "orders.dlq-0")
    live(disk, 2, go_on_elsewhere)
    disk.kill()
    disk.heal()
    live(disk, 3, go_on)


def test_a_letter_that_is_found_waits_for_no_other_to_be_written() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        for value in ("v1", "v2"):
            await PublishValue("orders", value, None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 2, 0, 60_000, 0).perform(broker)
        await write_letters_and_no_more(broker, disk, given[:1])
        disk.heal()
        disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)
        await SettleSome("billing", tuple(given[1:]), AckType.REJECT).perform(broker)
        await until(lambda: flight_states(broker) == [FlightState.DEAD])
        disk.heal()
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", each.value) for each in given]

    live(disk, 1, act, stops=True)


def test_a_letter_is_not_looked_for_where_none_can_be_since_all_that_were_dead_then_are_done() -> None:
    disk = SimDisk(1)
    given: list[Given] = []

    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        for value in ("v1", "v2"):
            await PublishValue("orders", value, None).perform(broker)
        given.extend(await ReceiveSome("billing", ("orders",), "ann", 2, 0, 60_000, 0).perform(broker))
        disk.fail(errno.ENOSPC, operation="write", path="*orders.dlq-0/*.log", times=None)
        await SettleSome("billing", tuple(given[:1]), AckType.REJECT).perform(broker)
        await let_pass(5)
        await SetQueue("billing", QueueSettings(dead_letters="graves")).perform(broker)
        await until(lambda: flight_states(broker) == [FlightState.LEASED])

    async def go_on(broker: Broker) -> None:
        await SettleSome("billing", tuple(given[1:]), AckType.REJECT).perform(broker)
        await until(lambda: flight_states(broker) == [])
        assert await ReadLetters("graves").perform(broker) == [Letter("billing", each.value) for each in given]

    live(disk, 1, act, stops=True)
    disk.heal()
    disk.fail(errno.EIO, operation="open", path=lambda path: "orders.dlq-0" in path.parts, times=None)
    live(disk, 2, go_on)


async def _open_a_transaction(broker: Broker, topic: str) -> None:
    identity = await init_transactions(broker.transactions, CALLER, "somebody", 600_000)
    messages = [NewMessage(None, b"open", [(GROUP_HEADER, b"others")])]
    await publish_in_transaction(
        broker.transactions, CALLER, PartitionTurns(), TransactionWriter("somebody", identity), topic, messages
    )


def test_an_open_transaction_hides_no_letter_from_whoever_looks_for_it() -> None:
    disk = SimDisk(1)

    async def act(broker: Broker) -> None:
        await MakeTopic("orders", 1).perform(broker)
        await MakeTopic("orders.dlq", 1).perform(broker)
        await _open_a_transaction(broker, "orders.dlq")
        await PublishValue("orders", "v1", None).perform(broker)
        given = await ReceiveSome("billing", ("orders",), "ann", 1, 0, 60_000, 0).perform(broker)
        disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=2, times=None)
        await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
        await let_pass(5)

    async def go_on(broker: Broker) -> None:
        await until(lambda: flight_states(broker) == [])
        await abort_transaction(broker.transactions, CALLER, "somebody")
        assert await ReadLetters("orders.dlq").perform(broker) == [Letter("billing", "v1")]

    live(disk, 1, act)
    disk.heal()
    live(disk, 2, go_on, stops=True)
