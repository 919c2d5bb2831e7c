"""Producers, their sequences and their transactions."""

from __future__ import annotations

from goqueue.errors.kinds import Conflict, Fenced, Invalid, NotFound


class UnknownProducer(NotFound):
    """A producer that the partition does not know, or has forgotten, wants to go on in the middle of its sequence.

    `start_offset` is where the partition's log starts, -1 if nobody has said so.
    """

    code = "unknown_producer"
    start_offset = -1


class ProducerFenced(Fenced):
    """A producer wrote with an epoch older than the current one."""

    code = "producer_fenced"


class TransactionFenced(ProducerFenced):
    """A newer producer has taken over the transactional id, or its transaction took too long and was aborted."""

    code = "transaction_fenced"


class OutOfOrderSequence(Conflict):
    """A producer's batch does not continue its sequence."""

    code = "out_of_order_sequence"


class InvalidTransactionState(Conflict):
    """The transaction is not in a state in which that can be done."""

    code = "invalid_transaction_state"


class ProducerMismatch(Conflict):
    """The transactional id belongs to another producer id."""

    code = "producer_mismatch"


class InvalidTransactionTimeout(Invalid):
    """A transaction cannot have that much time, or so little."""

    code = "invalid_transaction_timeout"


class ConcurrentTransactions(Conflict):
    """The transaction before is not completely ended yet."""

    code = "concurrent_transactions"
    retriable = True


class UnknownTransaction(NotFound):
    """Nothing is known of the transactional id."""

    code = "unknown_transaction"
