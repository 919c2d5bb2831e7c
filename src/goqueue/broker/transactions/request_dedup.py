"""The numbered requests of transactions: one that comes again is answered as it was, and stored once.

Whoever publishes single messages in a transaction numbers the requests from 0 on. What became of the last one is kept
until the transaction ends, the broker stops, or too much is kept; what is not known any more is refused, and then the
transaction has to be aborted. So forgetting costs work, and never a message.

A request is known by its number and by a digest of what it holds: the same number with something else in it is a
mistake of the sender, which would otherwise take the fates of one request for those of another.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from goqueue.broker.messages.publish import Fate, NewMessage, PartitionTurns, PublishedMessage
from goqueue.broker.transactions.coordination import held_transaction
from goqueue.broker.transactions.publish import TransactionWriter, publish_in_transaction
from goqueue.errors import GoQueueError, OutOfOrderSequence
from goqueue.machines.transactions.values import ProducerEpoch, Transaction
from goqueue.model.transactions import TransactionState
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.admission import Caller
    from goqueue.broker.transactions.service import TransactionService

KEPT_BYTES_MAX = 32 * 1024 * 1024
_DIGEST_BYTES = 16
# What an entry, a run and an error take in memory beside what they carry, roughly.
_ENTRY_BYTES = 600
_RUN_BYTES = 300
_ERROR_BYTES = 400
# How much is left when too much was kept: so the look at all of it is worth its while.
_LEFT_FRACTION = 0.75

_encode = msgspec.msgpack.Encoder().encode


class _Run(NamedTuple):
    """Messages that follow each other in a partition: their numbers in the request, and their one timestamp or all."""

    partition: int
    base_offset: int
    numbers: array[int]
    timestamps: array[int]


class _Failure(NamedTuple):
    """Messages that could not be stored for the same reason: their numbers in the request."""

    error: GoQueueError
    numbers: array[int]


class _Numbered(NamedTuple):
    """The last numbered request of a transaction, and what became of its messages."""

    identity: ProducerEpoch
    transaction: int
    number: int
    digest: bytes
    runs: Sequence[_Run]
    failures: Sequence[_Failure]

    @property
    def kept_bytes(self) -> int:
        """How much memory it takes, roughly."""
        stored = sum(_RUN_BYTES + len(run.numbers) * 4 + len(run.timestamps) * 8 for run in self.runs)
        failed = sum(
            _ERROR_BYTES + len(error.message) * 2 + len(error.hint) + len(numbers) * 4
            for error, numbers in self.failures
        )
        return _ENTRY_BYTES + stored + failed

    def fates(self) -> list[Fate]:
        """Return the fate of each message, as it was told."""
        fates: dict[int, Fate] = {number: error for error, numbers in self.failures for number in numbers}
        for partition, base_offset, numbers, timestamps in self.runs:
            stamps = timestamps if len(timestamps) > 1 else timestamps * len(numbers)
            for offset, (number, timestamp) in enumerate(zip(numbers, stamps, strict=True), base_offset):
                fates[number] = PublishedMessage(partition, offset, timestamp)
        return [fates[number] for number in range(len(fates))]


class TransactionRequestDedup:
    """The numbered requests of transactions, as far as they may come again; `bytes_max` is about what they may take."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        # The one that was heard of last is the last.
        self._last: dict[str, _Numbered] = {}
        self._bytes_max = bytes_max
        self.kept_bytes = 0

    def __len__(self) -> int:
        return len(self._last)

    async def publish(
        self,
        transactions: TransactionService,
        caller: Caller,
        turns: PartitionTurns,
        writer: TransactionWriter,
        number: int,
        topic: str,
        messages: Sequence[NewMessage | GoQueueError],
    ) -> list[Fate]:
        """Publish as `publish_in_transaction` does, unless that was done already; OutOfOrderSequence if in doubt.

        The requests of a transactional id are handled one after another, so one that comes again while the first is
        still under way waits for it. What is raised leaves its number to be used again: nothing was stored.
        """
        digest = _digest(topic, messages)

        async def work() -> list[Fate]:
            transaction = held_transaction(transactions, *writer)
            last = self._known(transaction)
            if last is not None and last.number == number:
                _check_digest(transaction, last, digest)
                return last.fates()
            _check_number(transactions, transaction, number, last)
            fates = await publish_in_transaction(transactions, caller, turns, writer, topic, messages)
            self._remember(transactions, writer.transactional_id, _numbered(transaction, number, digest, fates))
            return fates

        return await transactions.core.tasks.in_turn(f"publishing in transactions of {writer.transactional_id}", work)

    def forget(self, transactional_id: str) -> None:
        """Forget the requests of a transaction, which has ended."""
        known = self._last.pop(transactional_id, None)
        if known is not None:
            self.kept_bytes -= known.kept_bytes

    def _known(self, transaction: Transaction) -> _Numbered | None:
        last = self._last.get(transaction.id)
        return last if last is not None and _is_of(last, transaction) else None

    def _remember(self, transactions: TransactionService, transactional_id: str, numbered: _Numbered) -> None:
        self.forget(transactional_id)
        self._last[transactional_id] = numbered
        self.kept_bytes += numbered.kept_bytes
        if self.kept_bytes > self._bytes_max:
            self._make_room(transactions)

    def _make_room(self, transactions: TransactionService) -> None:
        """Forget transactions that have ended elsewhere; if these are too few, also those not heard of for longest."""
        for transactional_id, numbered in list(self._last.items()):
            if not _is_under_way(transactions, transactional_id, numbered):
                self.forget(transactional_id)
        while self._last and self.kept_bytes > self._bytes_max * _LEFT_FRACTION:
            self.forget(next(iter(self._last)))


def _digest(topic: str, messages: Sequence[NewMessage | GoQueueError]) -> bytes:
    content = [[each.code, each.message] if isinstance(each, GoQueueError) else each for each in messages]
    return blake2b(_encode((topic, content)), digest_size=_DIGEST_BYTES).digest()


def _numbered(transaction: Transaction, number: int, digest: bytes, fates: Sequence[Fate]) -> _Numbered:
    """Return what is kept of a request; the transaction is as it was before."""
    runs, failures = tuple(_runs(fates)), _failures(fates)
    return _Numbered(transaction.identity, _under_way(transaction), number, digest, runs, failures)


def _runs(fates: Sequence[Fate]) -> Iterator[_Run]:
    """Yield what was stored, in as few runs as there are batches; others may have written between two batches."""
    under_way: dict[int, _Run] = {}
    for number, fate in enumerate(fates):
        if isinstance(fate, GoQueueError):
            continue
        run = under_way.get(fate.partition)
        if run is None or fate.offset != run.base_offset + len(run.numbers):
            if run is not None:
                yield _shortened(run)
            run = under_way[fate.partition] = _Run(fate.partition, fate.offset, array("I"), array("q"))
        run.numbers.append(number)
        run.timestamps.append(fate.timestamp)
    yield from map(_shortened, under_way.values())


def _shortened(run: _Run) -> _Run:
    """Return a run whose timestamps are all the same, which most are, with one of them."""
    is_uniform = run.timestamps.count(run.timestamps[0]) == len(run.timestamps)
    return run._replace(timestamps=run.timestamps[:1]) if is_uniform else run


def _failures(fates: Sequence[Fate]) -> Sequence[_Failure]:
    found: dict[int, _Failure] = {}
    for number, fate in enumerate(fates):
        if isinstance(fate, GoQueueError):
            failure = found.get(id(fate))
            if failure is None:
                failure = found[id(fate)] = _Failure(_bare(fate), array("I"))
            failure.numbers.append(number)
    return tuple(found.values())


def _bare(error: GoQueueError) -> GoQueueError:
    """Return an error without where it came from, which would keep the whole request in memory."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _under_way(transaction: Transaction) -> int:
    """Return which transaction of its id is under way, or will be the next one."""
    return transaction.number if transaction.state is TransactionState.ONGOING else transaction.number + 1


def _is_of(numbered: _Numbered, transaction: Transaction) -> bool:
    return (numbered.identity, numbered.transaction) == (transaction.identity, _under_way(transaction))


def _is_under_way(transactions: TransactionService, transactional_id: str, numbered: _Numbered) -> bool:
    try:
        return _is_of(numbered, held_transaction(transactions, transactional_id, numbered.identity))
    except GoQueueError:
        # The next transaction has another identity.
        return False


def _check_digest(transaction: Transaction, last: _Numbered, digest: bytes) -> None:
    if last.digest != digest:
        raise OutOfOrderSequence(
            f"request {last.number} of {transaction.id!r} held something else when it came first",
            hint="give each request a number of its own; abort the transaction unless you know what is in it",
        )


def _check_number(
    transactions: TransactionService,
    transaction: Transaction,
    number: int,
    last: _Numbered | None,
) -> None:
    due = 0 if last is None else last.number + 1
    if number != due:
        raise OutOfOrderSequence(
            f"a request of {transaction.id!r} has sequence {number}, but {due} was due",
            hint="abort the transaction unless you know what was published in it",
        )
    if last is None and _has_written(transactions, transaction):
        raise OutOfOrderSequence(
            f"the transaction of {transaction.id!r} has messages, of which it is not known who sent them",
            hint="the broker may have been started again meanwhile; abort the transaction",
        )


def _has_written(transactions: TransactionService, transaction: Transaction) -> bool:
    for topic, index in transaction.partitions:
        opened = transactions.topics.by_name.get(topic)
        partition = opened.partitions[index] if opened is not None and index < len(opened.partitions) else None
        if isinstance(partition, Partition) and partition.log.producers.has_open_transaction(transaction.producer_id):
            return True
    return False
