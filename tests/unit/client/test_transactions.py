"""Transactions as blocks of code, of both clients: what is published, what is not, and what if replies are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from typing_extensions import override

from goqueue.client import (
    AsyncClient,
    Client,
    NewMessage,
    PartitionOffset,
    Patience,
    Published,
    StartAt,
    groups,
    messages,
    topics,
    transactions,
)
from goqueue.client.calls import Call
from goqueue.errors import (
    Conflict,
    InvalidTopicName,
    TransactionFenced,
    Unavailable,
    UnknownPartition,
    UnknownTransaction,
)
from goqueue.testing.broker import Broker
from tests.unit.client.lossy_relay import LossyRelay, lossy_relay

T = TypeVar("T")
ONCE = Patience(attempts=1)


class AsyncBlock:
    """A block of the async client, as one of the sync client looks."""

    def __init__(self, runner: asyncio.Runner, block: Any) -> None:
        self._runner = runner
        self._block = block

    @property
    def producer(self) -> Any:
        return self._block.producer

    def publish(self, topic: str, batch: Sequence[NewMessage]) -> Any:
        return self._runner.run(self._block.publish(topic, batch))

    def send_offsets(self, *given: Any, **options: Any) -> None:
        self._runner.run(self._block.send_offsets(*given, **options))


class AsyncBlocks:
    """An async client and a loop for it."""

    def __init__(self, server: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(server, **options)

    @contextmanager
    def transaction(self, transactional_id: str, **options: Any) -> Iterator[AsyncBlock]:
        block = self._client.transaction(transactional_id, **options)
        self._runner.run(block.__aenter__())
        try:
            yield AsyncBlock(self._runner, block)
        except BaseException as error:
            self._runner.run(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._runner.run(block.__aexit__(None, None, None))

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture(params=["sync", "async"])
def new_client(request: pytest.FixtureRequest, goqueue_session_broker: Broker) -> Iterator[Any]:
    """Make clients of one kind."""
    made: list[Any] = []

    def make(server: str = goqueue_session_broker.http, **options: Any) -> Any:
        made.append((Client if request.param == "sync" else AsyncBlocks)(server, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def relay(goqueue_session_broker: Broker) -> Iterator[LossyRelay]:
    with lossy_relay(goqueue_session_broker.http) as running:
        yield running


@pytest.fixture
def plain(goqueue_session_broker: Broker) -> Iterator[Client]:
    """A client that looks."""
    with Client(goqueue_session_broker.http) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest, plain: Client) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    plain.send(topics.create(name, partitions=1))
    return name


@contextmanager
def ends_with(kind: type[BaseException], match: str | None = None) -> Iterator[None]:
    """Expect that a block ends with an error."""
    with pytest.raises(kind, match=match):
        yield


def seen(client: Client, topic: str) -> list[bytes | None]:
    """Return what readers of what is committed see."""
    return [message.value for message in client.send(messages.read(topic, 0)).messages]


def test_the_end_of_a_block_commits(new_client: Any, plain: Client, topic: str) -> None:
    client = new_client()
    with client.transaction(topic) as transaction:
        published = transaction.publish(topic, [NewMessage("a"), NewMessage("b")])
        assert [(each.partition, each.offset) for each in published] == [(0, 0), (0, 1)]
        assert isinstance(published[0], Published)
        transaction.publish(topic, [NewMessage("c")])
        assert seen(plain, topic) == []
    assert seen(plain, topic) == [b"a", b"b", b"c"]


def test_an_exception_aborts_and_goes_on(new_client: Any, plain: Client, topic: str) -> None:
    client = new_client()
    with ends_with(ZeroDivisionError), client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("lost")])
        raise ZeroDivisionError
    with client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("kept")])
    assert seen(plain, topic) == [b"kept"]


def test_a_block_may_be_empty(new_client: Any, topic: str) -> None:
    client = new_client()
    for _ in range(2):
        with client.transaction(topic):
            pass


def test_each_block_goes_on_with_the_identity_of_the_one_before(new_client: Any, topic: str) -> None:
    client = new_client()
    identities = []
    for _ in range(3):
        with client.transaction(topic) as transaction:
            transaction.publish(topic, [NewMessage("x")])
            identities.append(transaction.producer)
    assert len({each.producer_id for each in identities}) == 1
    assert [each.epoch for each in identities] == [0, 1, 2]


def test_offsets_of_a_member_are_set_with_the_commit(new_client: Any, plain: Client, topic: str) -> None:
    client = new_client()
    plain.send(messages.publish(topic, [NewMessage("in", partition=0)]))
    member = plain.send(groups.join(topic, [topic], client_id="worker"))
    page = plain.send(groups.poll(topic, member, start_at=StartAt.EARLIEST))
    assert [each.value for each in page.messages] == [b"in"]
    with client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("out")])
        transaction.send_offsets(topic, page.offsets, member=member)
        assert [each.offset for each in plain.send(groups.offsets(topic)).offsets] in ([], [None])
    assert [each.offset for each in plain.send(groups.offsets(topic)).offsets] == [1]


def test_offsets_that_cannot_be_set_abort_the_block(new_client: Any, plain: Client, topic: str) -> None:
    client = new_client()
    with ends_with(Exception, match="partition 9"), client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("lost")])
        transaction.send_offsets(topic, [PartitionOffset(topic, 9, 1)])
    assert seen(plain, topic) == []


def test_another_client_with_the_same_id_fences_the_first_for_good(new_client: Any, plain: Client, topic: str) -> None:
    first, second = new_client(), new_client()
    with ends_with(TransactionFenced), first.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("of a zombie")])
        with second.transaction(topic) as other:
            other.publish(topic, [NewMessage("of the second")])
    with pytest.raises(TransactionFenced) as caught, first.transaction(topic):
        pytest.fail("a zombie has begun a transaction")
    assert "new client" in caught.value.hint
    with second.transaction(topic) as other:
        other.publish(topic, [NewMessage("again")])
    assert seen(plain, topic) == [b"of the second", b"again"]


def test_there_is_one_block_at_a_time_under_an_id(new_client: Any, plain: Client, topic: str) -> None:
    client = new_client()
    with client.transaction(topic) as transaction:
        with pytest.raises(Conflict, match="under way"), client.transaction(topic):
            pytest.fail("two transactions of one id")
        with client.transaction(f"{topic}-other") as other:
            other.publish(topic, [NewMessage("other")])
        transaction.publish(topic, [NewMessage("outer")])
    assert seen(plain, topic) == [b"other", b"outer"]


def test_a_message_that_cannot_be_stored_aborts_the_block(new_client: Any, plain: Client, topic: str) -> None:
    client = new_client()
    with ends_with(UnknownPartition), client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("fine"), NewMessage("wrong", partition=9)])
    assert seen(plain, topic) == []


def test_a_refusal_that_was_caught_is_no_obstacle(new_client: Any, plain: Client, topic: str) -> None:
    client = new_client()
    with client.transaction(topic) as transaction:
        for _ in range(2):
            with pytest.raises(InvalidTopicName):
                transaction.publish("no topic", [NewMessage("x")])
            with pytest.raises(UnknownPartition):
                transaction.publish(topic, [NewMessage("wrong", partition=9)])
            transaction.publish(topic, [NewMessage("fine")])
    assert seen(plain, topic) == [b"fine", b"fine"]


def test_lost_replies_make_no_duplicates(new_client: Any, plain: Client, topic: str, relay: LossyRelay) -> None:
    client = new_client(relay.address, patience=Patience(first_pause_s=0.001))
    relay.doomed += ["init", "begin", "publish", "commit"]
    with client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("a")])
        relay.doomed.append("publish")
        transaction.publish(topic, [NewMessage("b")])
    with client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("c")])
    assert len(relay.lost) == 5
    assert seen(plain, topic) == [b"a", b"b", b"c"]


def test_a_publish_in_doubt_aborts_the_block(new_client: Any, plain: Client, topic: str, relay: LossyRelay) -> None:
    client = new_client(relay.address, patience=ONCE)
    relay.doomed.append("publish")
    with ends_with(Unavailable, match="may have been carried out"), client.transaction(topic) as transaction:
        with pytest.raises(Unavailable):
            transaction.publish(topic, [NewMessage("in doubt")])
        with pytest.raises(Unavailable):
            transaction.publish(topic, [NewMessage("taken for the one before")])
    with client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("next")])
    assert seen(plain, topic) == [b"next"]


def test_a_commit_in_doubt_is_settled_by_the_next_block(
    new_client: Any, plain: Client, topic: str, relay: LossyRelay
) -> None:
    client = new_client(relay.address, patience=ONCE)
    relay.doomed.append("commit")
    with ends_with(Unavailable), client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("committed")])
    with client.transaction(topic) as transaction:
        assert seen(plain, topic) == [b"committed"]
        transaction.publish(topic, [NewMessage("next")])
    assert seen(plain, topic) == [b"committed", b"next"]


def test_an_abort_in_doubt_is_settled_by_the_next_block(
    new_client: Any, plain: Client, topic: str, relay: LossyRelay
) -> None:
    client = new_client(relay.address, patience=ONCE)
    relay.doomed.append("abort")
    with ends_with(ZeroDivisionError), client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("lost")])
        raise ZeroDivisionError
    with client.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("next")])
    assert seen(plain, topic) == [b"next"]


def test_a_block_that_takes_too_long_is_aborted_by_the_broker(new_client: Any) -> None:
    with Broker() as broker, Client(broker.http) as plain:
        client = new_client(broker.http)
        plain.send(topics.create("t", partitions=1))
        with ends_with(TransactionFenced), client.transaction("slow", timeout_s=5) as transaction:
            transaction.publish("t", [NewMessage("late")])
            broker.advance(6)
        assert seen(plain, "t") == []


def test_a_block_that_is_cancelled_is_aborted(goqueue_session_broker: Broker, plain: Client, topic: str) -> None:
    async def main() -> None:
        async with AsyncClient(goqueue_session_broker.http) as client:
            with ends_with(TimeoutError):
                async with asyncio.timeout(0.2), client.transaction(topic) as transaction:
                    await transaction.publish(topic, [NewMessage("lost")])
                    await asyncio.Event().wait()
            async with client.transaction(topic) as transaction:
                await transaction.publish(topic, [NewMessage("kept")])

    asyncio.run(main())
    assert seen(plain, topic) == [b"kept"]


def test_a_publish_that_is_cancelled_aborts_the_block(plain: Client, topic: str, relay: LossyRelay) -> None:
    async def main() -> None:
        async with AsyncClient(relay.address, patience=Patience(first_pause_s=60)) as client:
            with ends_with(Unavailable, match="given up"):
                async with client.transaction(topic) as transaction:
                    # The reply is lost, and the publish would be sent again much later.
                    relay.doomed.append("publish")
                    first = asyncio.create_task(transaction.publish(topic, [NewMessage("first")]))
                    assert await asyncio.to_thread(relay.has_lost.wait, 30)
                    first.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await first
                    with pytest.raises(Unavailable, match="given up"):
                        await transaction.publish(topic, [NewMessage("taken for the first")])
            async with client.transaction(topic) as transaction:
                await transaction.publish(topic, [NewMessage("next")])

    asyncio.run(main())
    assert seen(plain, topic) == [b"next"]


def test_an_interrupt_during_a_publish_aborts_the_block(plain: Client, topic: str) -> None:
    class Interrupted(Client):
        """A client whose user presses a key when the first publish was sent."""

        is_due = True

        @override
        def send(self, call: Call[T], *, patience: Patience | None = None) -> T:
            result = super().send(call, patience=patience)
            if self.is_due and call.path.endswith("/publish"):
                self.is_due = False
                raise KeyboardInterrupt
            return result

    with Interrupted(plain.server) as client:
        with ends_with(Unavailable, match="given up"), client.transaction(topic) as transaction:
            with pytest.raises(KeyboardInterrupt):
                transaction.publish(topic, [NewMessage("first")])
            with pytest.raises(Unavailable, match="given up"):
                transaction.publish(topic, [NewMessage("taken for the first")])
        with client.transaction(topic) as transaction:
            transaction.publish(topic, [NewMessage("next")])
    assert seen(plain, topic) == [b"next"]


def test_transactions_of_others_are_listed_described_counted_and_aborted(
    new_client: Any, plain: Client, topic: str
) -> None:
    client = new_client()
    odd = f"{topic}/ä b"
    with ends_with(TransactionFenced), client.transaction(odd, timeout_s=30) as transaction:
        transaction.publish(topic, [NewMessage("x")])
        found = plain.send(transactions.describe(odd))
        assert (found.state, found.timeout_ms, found.is_under_way) == ("Ongoing", 30_000, True)
        assert [str(each) for each in found.partitions] == [f"{topic}-0"]
        listed = plain.send(transactions.list_all(state="Ongoing", producer_id=found.producer_id))
        assert [each.transactional_id for each in listed] == [odd]
        oldest = plain.send(transactions.stats()).oldest_open
        assert oldest is not None
        assert oldest.is_under_way
        state = plain.send(transactions.heartbeat(transaction.producer))
        assert (state.state, state.epoch) == ("Ongoing", found.epoch)
        assert plain.send(transactions.force_abort(odd)).state == "CompleteAbort"
    assert plain.send(transactions.stats()).aborted["operator"] >= 1
    with pytest.raises(UnknownTransaction):
        plain.send(transactions.describe("nobody"))
