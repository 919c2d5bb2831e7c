"""Transactions as blocks of code: what is published in one is seen once the block has ended, or never.

    with client.transaction("billing-1") as transaction:
        transaction.publish("invoices", [NewMessage("...")])
        transaction.send_offsets("billing", page.offsets, member=member)

The end of the block commits, an exception aborts. What happens in which order is decided here once, as generators that
yield calls and are sent what comes of them; `Transaction` and `AsyncTransaction` carry the calls out.

An abort takes back what was published and which offsets were sent, and not what was polled: the next poll brings what
is behind it. So take a page for seen when its block has ended well, and poll with the same `after` again otherwise.

A client keeps the identity under a transactional id from one block to the next. So it notices if another producer has
taken the id over: then, and if a transaction took too long, it is fenced (TransactionFenced), and stays so. Only a new
client takes the id again.

If no reply comes to something that is published, even after it was sent again, or if nobody waits for it any more
(`publish` was cancelled or interrupted), the transaction is aborted, and the block raises why (Unavailable). If no
reply to a commit comes, it raises the same, and nobody knows whether it has happened: the next block of this client
with the same id asks for the same end first, so once it has begun, the commit has happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from goqueue.client import transactions
from goqueue.client.acts import Acts, carry_out, carry_out_async
from goqueue.client.calls import Call
from goqueue.client.group_values import PartitionOffset
from goqueue.client.groups import Known
from goqueue.client.messages import NewMessage, Published
from goqueue.client.transaction_values import Producer
from goqueue.errors import Conflict, Corrupt, GoQueueError, ProducerMismatch, TransactionFenced, Unavailable

if TYPE_CHECKING:
    from goqueue.client.client import AsyncClient, Client

T = TypeVar("T")


class Seat:
    """What a client knows of one transactional id; taken by one transaction at a time, whichever thread it is in."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.producer: Producer | None = None
        # An end that was asked for, and of which nothing has been heard.
        self.unsettled: Call[Producer] | None = None
        self.fenced: GoQueueError | None = None


class _Script:
    """One transaction, step by step."""

    def __init__(self, seat: Seat, transactional_id: str, timeout_s: float | None) -> None:
        self._seat = seat
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._sequence = 0
        # Why it is not known what was published.
        self._doubt: GoQueueError | None = None

    @property
    def producer(self) -> Producer:
        """The identity with which the transaction acts."""
        if self._seat.producer is None:
            raise Conflict(f"no transaction of {self._id!r} has begun", hint="use it in a with statement")
        return self._seat.producer

    def begin(self) -> Acts[None]:
        """Take the seat, see to it that the transaction before is over, and begin."""
        seat = self._seat
        if not seat.lock.acquire(blocking=False):
            raise Conflict(f"a transaction of {self._id!r} is under way", hint="there is one at a time")
        try:
            yield from self._watched(self._begin())
        except BaseException:
            seat.lock.release()
            raise

    def _begin(self) -> Acts[None]:
        seat = self._seat
        if seat.fenced is not None:
            raise TransactionFenced(seat.fenced.message, hint="a new client can take over")
        if seat.unsettled is not None:
            seat.producer = yield seat.unsettled
            seat.unsettled = None
        if seat.producer is None:
            seat.producer = yield transactions.init(self._id, timeout_s=self._timeout_s)
        yield transactions.begin(self.producer)

    def publish(self, topic: str, batch: Sequence[NewMessage | bytes]) -> Acts[Sequence[Published]]:
        """Publish all of a batch, or raise why one of its messages could not be stored."""
        if self._doubt is not None:
            raise self._doubt
        call = transactions.publish(self.producer, topic, batch, sequence=self._sequence)
        # Stays if this is cancelled, when nobody will be told how it went.
        self._doubt = Unavailable(f"a publish to {topic!r} was given up, and may have been carried out")
        try:
            fates = yield from self._watched(self._asked(call))
        except (Unavailable, Corrupt) as error:
            self._doubt = error
            raise
        except GoQueueError:
            # A refusal leaves no doubt, and its number to the next one.
            self._doubt = None
            raise
        self._doubt = None
        self._sequence += 1
        published = []
        for fate in fates:
            if isinstance(fate, GoQueueError):
                raise fate
            published.append(fate)
        return published

    def send_offsets(self, group: str, offsets: Iterable[PartitionOffset], member: Known | None) -> Acts[None]:
        """Let offsets be set with the commit, all of them, or raise why one of them cannot be."""
        call = transactions.send_offsets(self.producer, group, offsets, member=member)
        for refusal in (yield from self._watched(self._asked(call))):
            if refusal is not None:
                raise refusal

    def end(self, error: BaseException | None) -> Acts[None]:
        """Commit, or abort if there was an error; of which the caller hears anyway, so it hears of nothing else."""
        try:
            if error is None and self._doubt is None:
                yield from self._watched(self._end(transactions.commit(self.producer)))
                return
            with suppress(GoQueueError):
                yield from self._watched(self._end(transactions.abort(self.producer)))
            if error is None and self._doubt is not None:
                raise self._doubt
        finally:
            self._seat.lock.release()

    def _end(self, call: Call[Producer]) -> Acts[None]:
        seat = self._seat
        seat.unsettled = call
        try:
            seat.producer = yield call
        except (Unavailable, Corrupt):
            raise
        except GoQueueError:
            # A refusal leaves no doubt.
            seat.producer = seat.unsettled = None
            raise
        seat.unsettled = None

    @staticmethod
    def _asked(call: Call[T]) -> Acts[T]:
        result: T = yield call
        return result

    def _watched(self, acts: Acts[T]) -> Acts[T]:
        """Do something, and remember if another producer has taken over."""
        try:
            return (yield from acts)
        except (TransactionFenced, ProducerMismatch) as error:
            self._seat.fenced = error
            raise


class Transaction:
    """A transaction of a client for code that waits."""

    def __init__(self, client: Client, seat: Seat, transactional_id: str, timeout_s: float | None) -> None:
        self._client = client
        self._script = _Script(seat, transactional_id, timeout_s)

    @property
    def producer(self) -> Producer:
        """The identity with which the transaction acts."""
        return self._script.producer

    def publish(self, topic: str, batch: Sequence[NewMessage | bytes]) -> Sequence[Published]:
        """Publish a batch in the transaction; raises why one of its messages could not be stored."""
        return carry_out(self._client, self._script.publish(topic, batch))

    def send_offsets(self, group: str, offsets: Iterable[PartitionOffset], *, member: Known | None = None) -> None:
        """Set offsets of a group if the transaction commits; a group with members takes them from a member only."""
        carry_out(self._client, self._script.send_offsets(group, offsets, member))

    def __enter__(self) -> Self:
        carry_out(self._client, self._script.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        carry_out(self._client, self._script.end(error))


class AsyncTransaction:
    """A transaction of a client for an event loop."""

    def __init__(self, client: AsyncClient, seat: Seat, transactional_id: str, timeout_s: float | None) -> None:
        self._client = client
        self._script = _Script(seat, transactional_id, timeout_s)

    @property
    def producer(self) -> Producer:
        """The identity with which the transaction acts."""
        return self._script.producer

    async def publish(self, topic: str, batch: Sequence[NewMessage | bytes]) -> Sequence[Published]:
        """Publish a batch in the transaction; raises why one of its messages could not be stored."""
        return await carry_out_async(self._client, self._script.publish(topic, batch))

    async def send_offsets(
        self, group: str, offsets: Iterable[PartitionOffset], *, member: Known | None = None
    ) -> None:
        """Set offsets of a group if the transaction commits; a group with members takes them from a member only."""
        await carry_out_async(self._client, self._script.send_offsets(group, offsets, member))

    async def __aenter__(self) -> Self:
        await carry_out_async(self._client, self._script.begin())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await carry_out_async(self._client, self._script.end(error))
