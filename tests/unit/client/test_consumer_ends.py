"""Members of groups that are closed, lost, or called at the wrong moment: both clients say what has happened."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from typing_extensions import override

from goqueue.client import AssignmentChange, AsyncClient, Call, Client, PartitionOffset, Patience, groups, topics
from goqueue.client.acts import Acts
from goqueue.client.groups import GroupPage
from goqueue.errors import Conflict, UnknownMember
from goqueue.testing.broker import Broker, MovableClock
from tests.unit.client.consumer_kit import Made, SyncMember, committed, expelled, fill, making, read, values

T = TypeVar("T")


@pytest.fixture(params=["sync", "async"])
def member(request: pytest.FixtureRequest, goqueue_session_broker: Broker) -> Iterator[Made]:
    """Makes members of one of the clients, and lets all of them leave in the end."""
    with making(request.param, goqueue_session_broker.http, MovableClock()) as make:
        yield make


@pytest.fixture
def plain(goqueue_session_broker: Broker) -> Iterator[Client]:
    with Client(goqueue_session_broker.http) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest, plain: Client) -> str:
    """A topic of two partitions that no other test uses; its name is that of a group as well."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:200]
    plain.send(topics.create(name, partitions=2))
    return name


def test_closing_says_what_was_lost_with_the_membership(plain: Client, topic: str) -> None:
    fill(plain, topic, "a")
    reader = plain.consumer(topic, [topic])
    assert read(reader, 1) == ["a"]
    with expelled(plain, topic, SyncMember(reader)):
        until(lambda: reader.member is None)
    with pytest.raises(UnknownMember):
        reader.close()
    # It is closed all the same.
    reader.close()
    assert committed(plain, topic) == {}


def test_closing_says_nothing_if_all_was_committed_before_the_membership_was_lost(plain: Client, topic: str) -> None:
    fill(plain, topic, "a")
    reader = plain.consumer(topic, [topic])
    assert read(reader, 1) == ["a"]
    reader.commit()
    with expelled(plain, topic, SyncMember(reader)):
        until(lambda: reader.member is None)
    reader.close()
    assert committed(plain, topic) == {0: 1}


def until(fact: Callable[[], bool]) -> None:
    """Wait for a fact, for half a minute at most."""
    deadline = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < deadline


class SlowReplies(Client):
    """A client to which something happens before a page with messages arrives."""

    meanwhile: Callable[[], None] | None = None

    @override
    def send(self, call: Call[T], *, patience: Patience | None = None) -> T:
        reply = super().send(call, patience=patience)
        if isinstance(reply, GroupPage) and reply.messages and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        return reply


def test_what_a_listener_refuses_comes_again(goqueue_session_broker: Broker, plain: Client, topic: str) -> None:
    def refuse(change: AssignmentChange) -> None:
        raise ValueError(f"not {len(change.assignment)}")

    with (
        SlowReplies(goqueue_session_broker.http) as client,
        client.consumer(topic, [topic]) as reader,
        plain.consumer(topic, [topic]) as other,
    ):
        assert reader.poll(wait_s=0) == []
        reader.on_change = refuse

        def another_joins() -> None:
            other.poll(wait_s=0)
            # A heartbeat in the background tells that a partition is asked back.
            until(lambda: len(reader.assignment) == 1)

        client.meanwhile = another_joins
        fill(plain, topic, "a")
        fill(plain, topic, "z", partition=1)
        with pytest.raises(ValueError, match="not 1"):
            reader.poll(wait_s=30)
        reader.on_change = None
        found: list[str] = []
        for _ in range(100):
            if len(found) == 2:
                break
            found += values(reader.poll(wait_s=0.1)) + values(other.poll(wait_s=0.1))
        assert sorted(found) == ["a", "z"]


def test_a_listener_may_close_its_consumer(member: Made, plain: Client, topic: str) -> None:
    fill(plain, topic, "a")
    reader = member(topic, [topic])
    if isinstance(reader, SyncMember):
        reader.listen(lambda _: reader.close())
        with pytest.raises(Conflict, match="has left"):
            reader.poll()
    else:
        reader.listen(lambda _: reader.begin_closing())
        with pytest.raises(Conflict, match="has left"):
            reader.poll(wait_s=20)
        reader.wait_closed()
    assert plain.send(groups.describe(topic)).members == ()


def test_whoever_polls_while_another_thread_closes_joins_no_more(plain: Client, topic: str) -> None:
    reader = plain.consumer(topic, [topic])
    assert reader.poll(wait_s=0) == []
    outcomes: list[Conflict] = []

    def poll() -> None:
        try:
            reader.poll(wait_s=60)
        except Conflict as error:
            outcomes.append(error)

    polling = threading.Thread(target=poll)
    polling.start()
    reader.close()
    polling.join(30)
    assert [each.message for each in outcomes] == [f"this member of group {topic!r} has left"]
    assert plain.send(groups.describe(topic)).members == ()


def test_a_member_that_is_sent_away_while_it_waits_joins_again(plain: Client, topic: str) -> None:
    reader = plain.consumer(topic, [topic])
    assert reader.poll(wait_s=0) == []
    changes: list[AssignmentChange] = []
    reader.on_change = changes.append
    found: list[str] = []
    polling = threading.Thread(target=lambda: found.extend(values(reader.poll(wait_s=30))))
    polling.start()
    with expelled(plain, topic, SyncMember(reader)):
        fill(plain, topic, "a")
    polling.join(30)
    assert found == ["a"]
    assert [isinstance(change.lost, UnknownMember) for change in changes] == [True]
    reader.close()


def test_a_commit_before_anything_was_read_has_nothing_to_do(member: Made, plain: Client, topic: str) -> None:
    reader = member(topic, [topic])
    reader.commit()
    with pytest.raises(Conflict, match="is not with this member"):
        reader.commit([PartitionOffset(topic, 0, 1)])
    assert plain.send(groups.list_all()) is not None


def broken() -> Acts[None]:
    raise RuntimeError("a mistake")
    yield


def test_heartbeats_that_end_by_a_mistake_end_the_consumer(member: Made, plain: Client, topic: str) -> None:
    reader = member(topic, [topic])
    reader.poll(wait_s=0)
    # Nothing that a broker says does this: it stands for whatever nobody has thought of.
    reader._script.beat = broken
    with pytest.raises(Conflict, match="no more heartbeats") as told:
        read(reader, 1)
    assert isinstance(told.value.__cause__, RuntimeError)
    with pytest.raises(Conflict, match="no more heartbeats"):
        reader.commit()
    reader.close()
    assert plain.send(groups.describe(topic)).members == ()


def test_a_consumer_says_that_its_client_was_closed_first(goqueue_session_broker: Broker, topic: str) -> None:
    with Client(goqueue_session_broker.http) as client:
        reader = client.consumer(topic, [topic])
        reader.poll(wait_s=0)
    for act in (reader.poll, reader.commit, reader.close):
        with pytest.raises(Conflict, match="client is closed") as told:
            act()
        assert "consumers first" in told.value.hint
    reader.close()


def test_an_async_consumer_says_that_its_client_was_closed_first(goqueue_session_broker: Broker, topic: str) -> None:
    async def act() -> None:
        async with AsyncClient(goqueue_session_broker.http) as client:
            reader = client.consumer(topic, [topic])
            await reader.poll(wait_s=0)
        with pytest.raises(Conflict, match="client is closed"):
            await reader.poll()
        with pytest.raises(Conflict, match="client is closed"):
            await reader.close()
        await reader.close()

    asyncio.run(act())
