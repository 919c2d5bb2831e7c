"""The transaction coordinator: the producer of each transactional id, and the state of its transaction.

There is one machine for each partition of a compacted topic: the key of a record is a transactional id, the value its
state. `steps` has the rules, with the table of states. Markers are written elsewhere: `ending` lists the markers to
write, and the command `Complete` reports that they are durable. The machine trusts that the spare producer ids of
commands are unused.

Transactions that take too long and ids that are idle for too long come up in `due`, as commands; decided too early or
too late, these do nothing. The timeout of a transaction counts from its beginning, by the monotonic clock, and starts
again after a restart: it is unknown how much had passed, and a living producer could not end its transaction while the
broker was away. So a hanging transaction is aborted at most one timeout late. Days of idleness count by wall time,
which is exact enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from goqueue.errors import ProducerMismatch, UnknownTransaction
from goqueue.machines.deadlines import DeadlineIndex
from goqueue.machines.decision import Decision, KeyedRecord, Now, TicketReply
from goqueue.machines.transactions import steps
from goqueue.machines.transactions.records import read_id, read_transaction, tombstone, transaction_record
from goqueue.machines.transactions.sinks import (
    CommittedBatch,
    batch_record,
    commit_batch,
    forgotten_at_ms,
    read_batch,
)
from goqueue.machines.transactions.steps import TransactionStep
from goqueue.machines.transactions.values import (
    EPOCH_MAX,
    IDLE_MS,
    Abort,
    AddOffsets,
    AddPartitions,
    Command,
    CommitBatch,
    Complete,
    EndCause,
    Ending,
    EndTransaction,
    Expire,
    Forget,
    ForgetSink,
    Init,
    ProducerEpoch,
    Transaction,
    TransactionCommand,
)
from goqueue.model.sinks import is_sink_key
from goqueue.model.topic import TopicPartition


class _Outcome(NamedTuple):
    """The next state of a transactional id; forgotten without a transaction. `cause` is why its transaction ends."""

    id: str
    transaction: Transaction | None
    cause: EndCause | None = None


class _BatchOutcome(NamedTuple):
    """The next state of a sink and its transactions; without a last batch the sink is forgotten."""

    key: str
    last: CommittedBatch | None
    deadline_ms: int | None = None
    transactions: tuple[Transaction, ...] = ()


class TransactionMachine:
    """The transactional ids of one partition, as of the last adopted decision or applied record."""

    def __init__(self) -> None:
        self._transactions: dict[str, Transaction] = {}
        self._ending: dict[str, Ending] = {}
        self._new_endings: list[Ending] = []
        self._sinks: dict[str, CommittedBatch] = {}
        self._by_producer: dict[int, str] = {}
        self._deadlines = DeadlineIndex()
        self._ended: Counter[EndCause] = Counter()

    # -- queries

    @property
    def ended(self) -> Mapping[EndCause, int]:
        """Numbers of transactions that have ended since the start, by cause."""
        return self._ended

    def find(self, transactional_id: str) -> Transaction:
        """Return the state of a transactional id; UnknownTransaction if there is none."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise UnknownTransaction(f"there is no transactional id {transactional_id!r}")
        return transaction

    def find_producer(self, producer_id: int) -> Transaction | None:
        """Return the transactional id that has this producer id now."""
        transactional_id = self._by_producer.get(producer_id)
        return None if transactional_id is None else self._transactions[transactional_id]

    def held(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        """Return the state of a transactional id to the holder of its present identity; raise for others."""
        transaction = self._known(transactional_id)
        steps.check_caller(transaction, ProducerEpoch(producer_id, epoch))
        return transaction

    def last_batch(self, key: str) -> CommittedBatch | None:
        """Return the last committed batch of a sink, or None."""
        return self._sinks.get(key)

    def all(self) -> Sequence[Transaction]:
        """Return the states of all transactional ids, in order."""
        return [self._transactions[each] for each in sorted(self._transactions)]

    def verify(self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition) -> None:
        """Raise unless the open transaction is the caller's and has the partition."""
        transaction = self._known(transactional_id)
        if (
            not transaction.is_ongoing
            or transaction.producer_id != producer_id
            or transaction.epoch != epoch
            or partition not in transaction.partitions
        ):
            steps.verify(transaction, ProducerEpoch(producer_id, epoch), frozenset({partition}))

    def ending(self) -> Sequence[Ending]:
        """Return the transactions that are ending, the oldest first, until they are completed."""
        return tuple(self._ending.values())

    def take_new_endings(self) -> Sequence[Ending]:
        """Return those of `ending` that were decided since the last call."""
        new, self._new_endings = self._new_endings, []
        return new

    def deadline_ms(self) -> int | None:
        """Return the next deadline, in monotonic time."""
        return self._deadlines.first()

    def due(self, now: Now) -> Sequence[Command]:
        """Return the commands that are due, until they are carried out."""
        return [
            Forget(each) if (known := self._transactions.get(each)) is None or not known.is_ongoing else Expire(each)
            for each in self._deadlines.due(now.monotonic_ms)
        ]

    # -- decisions

    def is_independent(self, command: Command) -> bool:  # noqa: ARG002 - what a shard asks all machines
        """Return False: every command reads what others change."""
        return False

    def decide(self, command: Command, ticket: int, now: Now) -> Decision:
        """Return the decision on a command; raise what forbids it.

        The reply to InitProducer and EndTransaction is the identity to continue with; a command that waits for the end
        of a transaction gets its reply from the decision that completes it.
        """
        if isinstance(command, CommitBatch):
            return self._commit_batch(command, ticket, now)
        if isinstance(command, ForgetSink):
            return self._without_sink(command.id, ticket)
        if command.id in self._sinks:
            return self._decide_idle_sink(command, ticket, now)
        return self._decide_transaction(command, ticket, now)

    def _decide_transaction(self, command: TransactionCommand, ticket: int, now: Now) -> Decision:
        before = self._transactions.get(command.id)
        match command:
            case Init():
                step = steps.init(before, command, ticket, now)
            case AddPartitions():
                step = steps.add_partitions(self._known(command.id), command, ticket, now)
            case AddOffsets():
                step = steps.add_offsets(self._known(command.id), command, ticket, now)
            case EndTransaction():
                step = steps.end(self._known(command.id), command, ticket, now)
            case Abort():
                step = steps.abort(self.find(command.id), ticket, now)
            case Complete() if before is not None:
                step = steps.complete(before, command, ticket, now)
            case Expire() if before is not None and _is_overdue(before, now, is_ongoing=True):
                step = TransactionStep(steps.fence(before, now), (TicketReply(ticket, None),))
            case Forget() if before is not None and _is_overdue(before, now, is_ongoing=False):
                return Decision((tombstone(command.id),), (TicketReply(ticket, None),), _Outcome(command.id, None))
            case Complete() | Expire() | Forget():
                return Decision(answers=(TicketReply(ticket, None),))
            case _:
                assert_never(command)
        records = () if step.transaction == before else (transaction_record(step.transaction),)
        cause = _cause(before, command, step.transaction)
        outcome = _Outcome(command.id, step.transaction, cause)
        return Decision(records, step.answers, outcome, is_told_at_once=step.is_told_at_once)

    def _commit_batch(self, command: CommitBatch, ticket: int, now: Now) -> Decision:
        step = commit_batch(self._sinks.get(command.id), command, self._transactions, now)
        records = [transaction_record(each) for each in step.transactions]
        if step.reply.is_new:
            records.append(batch_record(command.id, step.last))
        outcome = _BatchOutcome(command.id, step.last, forgotten_at_ms(step.last, now), step.transactions)
        return Decision(records, (TicketReply(ticket, step.reply),), outcome)

    def _without_sink(self, key: str, ticket: int) -> Decision:
        records = (tombstone(key),) if key in self._sinks else ()
        return Decision(records, (TicketReply(ticket, None),), _BatchOutcome(key, None))

    def _decide_idle_sink(self, command: TransactionCommand, ticket: int, now: Now) -> Decision:
        deadline = self._deadlines.get(command.id)
        if isinstance(command, Forget) and deadline is not None and deadline <= now.monotonic_ms:
            return self._without_sink(command.id, ticket)
        raise UnknownTransaction(f"{command.id!r} is a sink, not a transactional id")

    def _known(self, transactional_id: str) -> Transaction:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise ProducerMismatch(f"the transactional id {transactional_id!r} belongs to no producer")
        return transaction

    # -- state

    def adopt(self, decision: Decision) -> None:
        """Apply a decision whose records are stored."""
        outcome = decision.outcome
        if outcome is None:
            return
        if isinstance(outcome, _BatchOutcome):
            self._adopt_batch(outcome)
            return
        assert isinstance(outcome, _Outcome)
        self._put(outcome.id, outcome.transaction)
        if outcome.cause is not None:
            self._ended[outcome.cause] += 1

    def _adopt_batch(self, outcome: _BatchOutcome) -> None:
        for transaction in outcome.transactions:
            self._put(transaction.id, transaction)
            self._ended[EndCause.COMMIT if transaction.is_committed else EndCause.ABORT] += 1
        self._put_sink(outcome.key, outcome.last, outcome.deadline_ms)

    def apply(self, record: KeyedRecord) -> None:
        """Apply a stored record; Corrupt if it is not a record of transactions."""
        transactional_id = read_id(record)
        value = record.value
        if is_sink_key(transactional_id):
            self._put_sink(transactional_id, None if value is None else read_batch(transactional_id, value), None)
            return
        self._put(transactional_id, None if value is None else read_transaction(transactional_id, value))

    def revive(self, now: Now) -> None:
        """Start the timeouts after all stored records were applied."""
        self._new_endings = list(self._ending.values())
        for transaction in self.all():
            self._put(transaction.id, replace(transaction, deadline_ms=_revived_deadline_ms(transaction, now)))
        for key, last in self._sinks.items():
            self._deadlines.set(key, forgotten_at_ms(last, now))

    def _put_sink(self, key: str, last: CommittedBatch | None, deadline_ms: int | None) -> None:
        if last is None:
            self._sinks.pop(key, None)
        else:
            self._sinks[key] = last
        self._deadlines.set(key, deadline_ms)

    def _put(self, transactional_id: str, transaction: Transaction | None) -> None:
        before = self._transactions.pop(transactional_id, None)
        if before is not None:
            self._by_producer.pop(before.producer_id, None)
        if transaction is not None:
            self._transactions[transactional_id] = transaction
            self._by_producer[transaction.producer_id] = transactional_id
        self._deadlines.set(transactional_id, None if transaction is None else transaction.deadline_ms)
        if transaction is None or not transaction.is_ending:
            self._ending.pop(transactional_id, None)
        elif before is None or not before.is_ending:
            self._ending[transactional_id] = ending = _ending_of(transaction)
            self._new_endings.append(ending)

    def records(self) -> Sequence[KeyedRecord]:
        """Return the records from which a new machine becomes equal to this one."""
        sinks = [batch_record(key, self._sinks[key]) for key in sorted(self._sinks)]
        return [*(transaction_record(transaction) for transaction in self.all()), *sinks]

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        self._deadlines.validate()
        limited = sum(each.deadline_ms is not None for each in self._transactions.values())
        limited += sum(self._deadlines.get(key) is not None for key in self._sinks)
        assert len(self._deadlines) == limited
        assert not self._sinks.keys() & self._transactions.keys()
        producer_ids: list[int] = []
        for transactional_id, transaction in self._transactions.items():
            assert transaction.id == transactional_id
            assert self._deadlines.get(transactional_id) == transaction.deadline_ms
            producer_ids += [transaction.producer_id, *([transaction.next.producer_id] if transaction.next else [])]
            _validate_transaction(transaction)
        assert len(producer_ids) == len(set(producer_ids))
        assert self._by_producer == {each.producer_id: each.id for each in self._transactions.values()}
        assert self._ending == {each.id: _ending_of(each) for each in self.all() if each.is_ending}


def _cause(before: Transaction | None, command: TransactionCommand, after: Transaction) -> EndCause | None:
    """Return why the open transaction ends; None if it does not."""
    if before is None or not before.is_ongoing or not after.is_ending:
        return None
    match command:
        case EndTransaction():
            return EndCause.COMMIT if command.is_commit else EndCause.ABORT
        case Abort():
            return EndCause.OPERATOR
        case Expire():
            return EndCause.TIMEOUT
        case _:
            return EndCause.INIT


def _is_overdue(transaction: Transaction, now: Now, *, is_ongoing: bool) -> bool:
    if transaction.is_ongoing is not is_ongoing:
        return False
    return transaction.deadline_ms is not None and transaction.deadline_ms <= now.monotonic_ms


def _revived_deadline_ms(transaction: Transaction, now: Now) -> int | None:
    if transaction.is_ending:
        return None
    if transaction.is_ongoing:
        return now.monotonic_ms + transaction.timeout_ms
    idle_ms = now.wall_ms - transaction.updated_ms
    return now.monotonic_ms + IDLE_MS - min(max(idle_ms, 0), IDLE_MS)


def _ending_of(transaction: Transaction) -> Ending:
    return Ending(
        transaction.id,
        transaction.producer_id,
        transaction.epoch,
        transaction.number,
        is_commit=transaction.is_committed,
        partitions=transaction.partitions,
        groups=transaction.groups,
    )


def _validate_transaction(transaction: Transaction) -> None:
    has_content = bool(transaction.partitions or transaction.groups)
    is_ongoing = transaction.is_ongoing
    assert transaction.id
    assert transaction.producer_id >= 0
    # No producer ever gets the epoch above the last one.
    assert 0 <= transaction.epoch <= (EPOCH_MAX + 1 if transaction.holder is None else EPOCH_MAX)
    assert has_content is (is_ongoing or transaction.is_ending)
    assert transaction.next is None or (transaction.is_ending and transaction.epoch > EPOCH_MAX)
    assert not (is_ongoing and transaction.previous)
    assert not (transaction.is_ending and transaction.deadline_ms is not None)
    assert transaction.is_ending or not (transaction.waiting_ends or transaction.waiting_init)
