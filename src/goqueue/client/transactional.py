"""Transactions as blocks of code: what is published in one is seen once the block has ended, or never.

    orders = consumer.poll()
    with client.transaction("billing-1") as transaction:
        transaction.publish("invoices", [NewMessage("...")])
        transaction.send_offsets(consumer)

The end of the block commits; an exception or `transaction.abort()` aborts. What happens in which order is decided here
once, as generators that yield calls and are sent what comes of them; `Transaction` and `AsyncTransaction` carry the
calls out.

A transaction that does not commit rewinds its consumers: their next poll begins at the committed offsets, so what was
polled for this transaction comes again. `transaction_inputs` says which consumers these are. A consumer whose offsets a
transaction has sent commits nothing by itself any more. Members without a consumer (`groups.poll`) are not rewound:
take a page for seen when its block has ended well, and poll with the same `after` again otherwise.

A client keeps the identity under a transactional id from one block to the next. So it notices if another producer has
taken the id over: then, and if a transaction took too long, it is fenced (TransactionFenced), and stays so. Only a new
client takes the id again.

If no reply comes to something that is published, even after it was sent again, or if nobody waits for it any more
(`publish` was cancelled or interrupted), the transaction is aborted, and the block raises why (Unavailable). If no
reply to a commit comes, it raises the same, and nobody knows whether it has happened: the next block of this client
with the same id asks for the same end first, so once it has begun, the commit has happened. So does the next poll of a
consumer whose offsets were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from weakref import WeakSet

from goqueue.api.transactions import Producer
from goqueue.client import transactions
from goqueue.client.acts import Acts, carry_out, carry_out_async
from goqueue.client.calls import Call
from goqueue.client.durations import Duration
from goqueue.client.group_values import PartitionOffset
from goqueue.client.groups import Known
from goqueue.client.member_script import MemberScript
from goqueue.client.messages import NewMessage, Published
from goqueue.client.transaction_inputs import AnyConsumer, Inputs, Sent, current_task, current_thread, script_of
from goqueue.errors import Conflict, Corrupt, GoQueueError, ProducerMismatch, TransactionFenced, Unavailable

if TYPE_CHECKING:
    from goqueue.client.client import AsyncClient, Client
    from goqueue.client.consumer import AsyncConsumer, Consumer

T = TypeVar("T")


class Seat:
    """What a client knows of one transactional id; taken by one transaction at a time, whichever thread it is in."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.producer: Producer | None = None
        # An end that was asked for, and of which nothing has been heard.
        self.unsettled: Call[Producer] | None = None
        self.fenced: GoQueueError | None = None
        self.consumers: WeakSet[MemberScript] = WeakSet()

    def settle(self, end: Call[Producer]) -> Acts[None]:
        """Ask for an end again of which nothing has been heard, unless that has been done meanwhile.

        A refusal settles it as well: another producer has taken over, or the broker has aborted the transaction.
        """
        if self.unsettled is not end:
            return
        if not self.lock.acquire(blocking=False):
            raise Conflict("the transaction of this consumer is being ended", hint="poll again")
        try:
            self.producer = yield end
            self.unsettled = None
        except (Unavailable, Corrupt):
            raise
        except (TransactionFenced, ProducerMismatch) as error:
            self.fenced = error
        except GoQueueError:
            self.producer = self.unsettled = None
        finally:
            self.lock.release()


class _Script:
    """One transaction, step by step."""

    def __init__(
        self, seat: Seat, transactional_id: str, timeout_s: Duration | None, consumer: AnyConsumer | None
    ) -> None:
        self._seat = seat
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._sequence = 0
        self._is_aborted = False
        self._inputs = Inputs(seat.consumers)
        if consumer is not None:
            self._inputs.name(script_of(consumer))
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
        self._require_open()
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

    def send_offsets(self, sent: Sent) -> Acts[None]:
        """Let offsets be set with the commit, all of them, or raise why one of them cannot be."""
        self._require_open()
        self._inputs.name(sent.script, sent.offsets)
        call = transactions.send_offsets(self.producer, sent.group, sent.offsets, member=sent.member)
        for refusal in (yield from self._watched(self._asked(call))):
            if refusal is not None:
                raise refusal

    def abort(self, me: object) -> Acts[None]:
        """Abort now; the end of the block does nothing more, unless no reply comes."""
        if not self._is_aborted:
            self._is_aborted = True
            self._rewind(me, None)
            yield from self._watched(self._end(transactions.abort(self.producer)))

    def end(self, error: BaseException | None, me: object) -> Acts[None]:
        """Commit, or abort if there was an error; of which the caller hears anyway, so it hears of nothing else."""
        try:
            if self._is_aborted:
                return
            if error is None and self._doubt is None:
                yield from self._commit(me)
                return
            self._is_aborted = True
            self._rewind(me, None)
            with suppress(GoQueueError):
                yield from self._watched(self._end(transactions.abort(self.producer)))
            if error is None and self._doubt is not None:
                raise self._doubt
        finally:
            self._seat.lock.release()

    def _commit(self, me: object) -> Acts[None]:
        call = transactions.commit(self.producer)
        try:
            yield from self._watched(self._end(call))
        except BaseException:
            # Also if it was cancelled: nobody will be told how it went.
            self._rewind(me, call)
            raise
        self._inputs.committed()

    def _rewind(self, me: object, doubtful: Call[Producer] | None) -> None:
        """Let consumers go back with their next poll; after a commit in doubt, once it is known how that has ended."""
        seat = self._seat

        def settle() -> Acts[None]:
            if doubtful is not None:
                yield from seat.settle(doubtful)

        for each in self._inputs.to_rewind(me):
            each.rewind(settle)

    def _require_open(self) -> None:
        if self._is_aborted:
            raise Conflict(f"this transaction of {self._id!r} was aborted", hint="leave its block, and begin another")

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

    def __init__(
        self,
        client: Client,
        seat: Seat,
        transactional_id: str,
        timeout_s: Duration | None,
        consumer: Consumer | None = None,
    ) -> None:
        self._client = client
        self._script = _Script(seat, transactional_id, timeout_s, consumer)

    @property
    def producer(self) -> Producer:
        """The identity with which the transaction acts."""
        return self._script.producer

    def publish(self, topic: str, batch: Sequence[NewMessage | bytes]) -> Sequence[Published]:
        """Publish a batch in the transaction; raises why one of its messages could not be stored."""
        return carry_out(self._client, self._script.publish(topic, batch))

    def send_offsets(
        self,
        group: str | Consumer,
        offsets: Iterable[PartitionOffset] | None = None,
        *,
        member: Known | Consumer | None = None,
    ) -> None:
        """Set offsets of a group if the transaction commits: all that a consumer has polled, or those of a group.

            transaction.send_offsets(consumer)
            transaction.send_offsets("billing", consumer.positions, member=consumer)

        `member` is the consumer or its membership; a group with members takes offsets from a member only.
        """
        carry_out(self._client, self._script.send_offsets(Sent(group, offsets, member)))

    def abort(self) -> None:
        """Abort now: nothing more can be done in this block, and its end does nothing; consumers are rewound."""
        carry_out(self._client, self._script.abort(current_thread()))

    def __enter__(self) -> Self:
        carry_out(self._client, self._script.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        carry_out(self._client, self._script.end(error, current_thread()))


class AsyncTransaction:
    """A transaction of a client for an event loop."""

    def __init__(
        self,
        client: AsyncClient,
        seat: Seat,
        transactional_id: str,
        timeout_s: Duration | None,
        consumer: AsyncConsumer | None = None,
    ) -> None:
        self._client = client
        self._script = _Script(seat, transactional_id, timeout_s, consumer)

    @property
    def producer(self) -> Producer:
        """The identity with which the transaction acts."""
        return self._script.producer

    async def publish(self, topic: str, batch: Sequence[NewMessage | bytes]) -> Sequence[Published]:
        """Publish a batch in the transaction; raises why one of its messages could not be stored."""
        return await carry_out_async(self._client, self._script.publish(topic, batch))

    async def send_offsets(
        self,
        group: str | AsyncConsumer,
        offsets: Iterable[PartitionOffset] | None = None,
        *,
        member: Known | AsyncConsumer | None = None,
    ) -> None:
        """Set offsets of a group if the transaction commits; as that of `Transaction`."""
        await carry_out_async(self._client, self._script.send_offsets(Sent(group, offsets, member)))

    async def abort(self) -> None:
        """Abort now; as that of `Transaction`."""
        await carry_out_async(self._client, self._script.abort(current_task()))

    async def __aenter__(self) -> Self:
        await carry_out_async(self._client, self._script.begin())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await carry_out_async(self._client, self._script.end(error, current_task()))
