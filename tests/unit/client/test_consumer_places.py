"""Where members of groups go on: after a restart of the broker, a seek, a move or an exception nothing is skipped."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from typing_extensions import override

from goqueue.client import Call, Client, Consumer, GroupPartition, NewMessage, Patience, StartAt, messages, topics
from goqueue.errors import OffsetOutOfRange
from goqueue.testing.broker import Broker
from tests.unit.client.consumer_kit import committed, fill, read, values
from tests.unit.client.lossy_relay import lossy_relay

PATIENT = Patience(attempts=8)
T = TypeVar("T")


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker that listens where it did before when it is started again."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with Broker(http_port=port) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.http, patience=PATIENT) as made:
        made.send(topics.create("t", partitions=2))
        yield made


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def settled(first: Consumer, second: Consumer) -> list[str]:
    """Let two members poll until each has a partition; return what came meanwhile."""
    found: list[str] = []
    for _ in range(200):
        if len(second.assignment) == len(first.assignment) == 1:
            return found
        found += values(first.poll(wait_s=0.1)) + values(second.poll(wait_s=0.1))
    raise AssertionError("they do not share")


def test_a_member_that_began_at_the_end_skips_nothing_when_the_broker_restarts(broker: Broker, client: Client) -> None:
    fill(client, "t", *numbers(0, 10))
    # It commits nothing by itself.
    with client.consumer("g", ["t"], start_at=StartAt.LATEST, auto_commit_s=None) as reader:
        assert reader.poll(wait_s=0) == []
        broker.restart()
        fill(client, "t", *numbers(10, 12))
        assert read(reader, 2) == numbers(10, 12)
        broker.restart()
        fill(client, "t", *numbers(12, 15))
        assert read(reader, 3) == numbers(12, 15)
    assert committed(client, "g") == {}


class WaitingClient(Client):
    """A client to which something happens when it is about to wait for messages for the first time."""

    meanwhile: Callable[[], None] | None = None

    @override
    def send(self, call: Call[T], *, patience: Patience | None = None) -> T:
        if call.path.endswith("/poll") and call.wait_s and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        return super().send(call, patience=patience)


@pytest.mark.parametrize(("auto_commit_s", "left"), [(5.0, {0: 10}), (None, {})])
def test_a_member_knows_where_it_began_before_it_waits(
    broker: Broker, client: Client, auto_commit_s: float | None, left: dict[int, int]
) -> None:
    fill(client, "t", *numbers(0, 10))

    def restart() -> None:
        assert committed(client, "g") == left
        broker.restart()
        fill(client, "t", *numbers(10, 12))

    with WaitingClient(broker.http, patience=PATIENT) as waiting:
        waiting.meanwhile = restart
        with waiting.consumer("g", ["t"], start_at=StartAt.LATEST, auto_commit_s=auto_commit_s) as reader:
            assert values(reader.poll(wait_s=3)) == numbers(10, 12)


def test_a_seek_to_where_nothing_is_begins_anew_and_says_so(client: Client) -> None:
    fill(client, "t", *numbers(0, 3))
    zero = GroupPartition("t", 0)
    for start_at, again in ((StartAt.EARLIEST, numbers(0, 3)), (StartAt.LATEST, [])):
        with client.consumer(start_at.value, ["t"], start_at=start_at, auto_commit_s=None) as reader:
            reader.poll(wait_s=0)
            reader.seek("t", 0, 50)
            assert values(reader.poll(wait_s=0.1)) == again
            error = reader.errors[zero]
            assert isinstance(error, OffsetOutOfRange)
            assert (error.offset, error.start, error.end) == (50, 0, 3)
            assert {each.partition: each.offset for each in reader.positions} == {0: 3, 1: 0}
            fill(client, "t", "more", partition=1)
            assert read(reader, 1) == ["more"]
            assert reader.errors == {}
        # It is nothing that stays: the next group begins with as much.
        client.send(topics.delete("t"))
        client.send(topics.create("t", partitions=2))
        fill(client, "t", *numbers(0, 3))


def test_a_member_that_went_back_goes_on_there_when_the_broker_restarts(broker: Broker, client: Client) -> None:
    fill(client, "t", *numbers(0, 20))
    with client.consumer("g", ["t"], auto_commit_s=None) as reader:
        assert read(reader, 20) == numbers(0, 20)
        reader.commit()
        reader.seek("t", 0, 5)
        assert read(reader, 3, limit=3) == numbers(5, 8)
        broker.restart()
        fill(client, "t", "20")
        assert read(reader, 13) == numbers(8, 21)
        reader.seek("t", 0, 18)
        broker.restart()
        assert read(reader, 3) == numbers(18, 21)


def test_a_reply_that_is_lost_after_a_restart_changes_nothing(broker: Broker, client: Client) -> None:
    fill(client, "t", *numbers(0, 10))
    with (
        lossy_relay(broker.http) as relay,
        Client(relay.address, patience=PATIENT) as lossy,
        lossy.consumer("g", ["t"], start_at=StartAt.LATEST, auto_commit_s=None) as reader,
    ):
        assert reader.poll(wait_s=0) == []
        broker.restart()
        fill(client, "t", *numbers(10, 13))
        # The reply that tells that all is forgotten, twice, and the one to the seeks that follow.
        relay.doomed += ["after=1", "after=1", "seek=t%3A0%3A10%2Ct%3A1%3A0"]
        assert values(reader.poll(wait_s=0)) == numbers(10, 13)
        assert relay.doomed == []


def test_the_place_where_an_idle_partition_began_is_left_to_the_next_member(client: Client) -> None:
    fill(client, "t", *numbers(0, 10))
    with client.consumer("g", ["t"], start_at=StartAt.LATEST) as reader:
        assert reader.poll(wait_s=0) == []
    fill(client, "t", *numbers(10, 13))
    with client.consumer("g", ["t"], start_at=StartAt.LATEST) as reader:
        assert read(reader, 3) == numbers(10, 13)


def test_the_place_where_an_idle_partition_began_goes_with_it_to_another_member(client: Client) -> None:
    with (
        client.consumer("g", ["t"], start_at=StartAt.LATEST) as first,
        client.consumer("g", ["t"], start_at=StartAt.LATEST) as second,
    ):
        assert first.poll(wait_s=0) == second.poll(wait_s=0) == []
        fill(client, "t", "a")
        fill(client, "t", "z", partition=1)
        assert {*settled(first, second), *values(first.poll()), *values(second.poll())} == {"a", "z"}


def test_a_member_that_is_never_heard_of_again_leaves_where_it_began(broker: Broker, client: Client) -> None:
    fill(client, "t", "old")
    killed = client.consumer("g", ["t"], start_at=StartAt.LATEST)
    # The second poll commits at once where the first one has begun.
    assert killed.poll(wait_s=0) == killed.poll(wait_s=0) == []
    assert committed(client, "g") == {0: 1}
    killed.close(is_done=False)


def test_what_was_not_done_is_left_to_the_next_member_wherever_it_began(client: Client) -> None:
    def work() -> None:
        with client.consumer("g", ["t"], start_at=StartAt.LATEST) as reader:
            assert reader.poll(wait_s=0) == []
            fill(client, "t", "a")
            assert read(reader, 1) == ["a"]
            fill(client, "t", "z", partition=1)
            assert read(reader, 1) == ["z"]
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    with client.consumer("g", ["t"], start_at=StartAt.LATEST) as reader:
        assert read(reader, 1) == ["z"]


def test_any_number_of_partitions_can_be_sought_at_once(broker: Broker, client: Client) -> None:
    name, count = "n" * 200, 300
    client.send(topics.create(name, partitions=count))
    batch = [NewMessage(f"{partition}/{number}", partition=partition) for partition in range(count) for number in "ab"]
    client.send(messages.publish(name, batch))
    with client.consumer("g", [name], auto_commit_s=None) as reader:
        assert len(read(reader, 2 * count)) == 2 * count
        for partition in range(count):
            reader.seek(name, partition, 1)
        assert sorted(read(reader, count)) == sorted(f"{partition}/b" for partition in range(count))
        assert {each.offset for each in reader.positions} == {2}
        # What a restarted broker has to be told is as much.
        for partition in range(count):
            reader.seek(name, partition, 1)
        assert len(read(reader, 1, limit=1)) == 1
        broker.restart()
        assert len(read(reader, count - 1)) == count - 1
        assert reader.poll(wait_s=0) == []
