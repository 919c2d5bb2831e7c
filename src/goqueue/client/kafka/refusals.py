"""Maps Kafka's error codes to errors of `goqueue.errors`, whose `retriable` decides whether a request is sent again.

A broker may not know a partition or topic yet that its metadata has just listed: that is retriable. If it is deleted
instead, the next metadata show that, and that is final. So `UnknownTopic` comes from there.
"""

from __future__ import annotations

from goqueue.errors import (
    ConcurrentTransactions,
    CoordinatorUnavailable,
    CorruptBatch,
    EpochFenced,
    GoQueueError,
    Invalid,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopicName,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    NotEnoughReplicas,
    OutOfOrderSequence,
    ProducerFenced,
    ProducerMismatch,
    Throttled,
    TooLarge,
    TransactionFenced,
    Unavailable,
    UnknownEpoch,
    UnknownProducer,
    UnknownTransaction,
    UnsupportedFormat,
)

NO_ERROR = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
DUPLICATE_SEQUENCE = 46
UNKNOWN_TOPIC_ID = 100

_LOADING = "its coordinator is not ready"
_TABLE: dict[int, tuple[type[GoQueueError], str]] = {
    2: (CorruptBatch, "a batch was damaged on its way"),
    UNKNOWN_TOPIC_OR_PARTITION: (Unavailable, "the broker does not serve that partition"),
    5: (Unavailable, "the partition has no leader at the moment"),
    6: (Unavailable, "another broker leads the partition, or the broker is about to stop"),
    7: (Unavailable, "the broker took too long"),
    9: (Unavailable, "a replica is not available"),
    10: (TooLarge, "a batch is larger than the topic takes"),
    13: (Unavailable, "the broker lost another one"),
    14: (CoordinatorUnavailable, _LOADING),
    15: (CoordinatorUnavailable, _LOADING),
    16: (CoordinatorUnavailable, "another broker is its coordinator"),
    17: (InvalidTopicName, "no topic of that name can be used"),
    19: (NotEnoughReplicas, "too few replicas are in sync"),
    20: (NotEnoughReplicas, "too few replicas are in sync"),
    29: (Invalid, "access to the topic is not allowed"),
    31: (Invalid, "access to the cluster is not allowed"),
    32: (InvalidTimestamp, "a timestamp is not allowed there"),
    43: (UnsupportedFormat, "the topic does not take that format of records"),
    45: (OutOfOrderSequence, "a batch does not continue the sequence of its producer"),
    47: (ProducerFenced, "a newer producer has taken over, or the transaction took too long"),
    48: (InvalidTransactionState, "the transaction is not in a state in which that can be done"),
    49: (ProducerMismatch, "the transactional id belongs to another producer"),
    50: (InvalidTransactionTimeout, "the transaction cannot have that much time"),
    51: (ConcurrentTransactions, "the transaction before has not ended completely"),
    53: (Invalid, "access to the transactional id is not allowed"),
    55: (Unavailable, "the request was not attempted, because of another partition in it"),
    56: (Unavailable, "the broker cannot use its disk; its log says why"),
    59: (UnknownProducer, "the partition has forgotten the producer"),
    74: (EpochFenced, "the partition has another leader by now"),
    75: (UnknownEpoch, "the broker does not know of the partition's leader yet"),
    78: (Unavailable, "the new leader does not know its offsets yet"),
    87: (InvalidRecord, "the batch holds what cannot be stored"),
    89: (Throttled, "a quota is used up"),
    90: (TransactionFenced, "a newer producer has taken over, or the transaction took too long"),
    UNKNOWN_TOPIC_ID: (Unavailable, "the broker does not serve that topic"),
    105: (UnknownTransaction, "nothing is known of the transactional id"),
}


def refusal(code: int, what: str, message: str = "") -> GoQueueError:
    """Return the error of a code; its message begins with `what` it is about, then comes the message of the broker."""
    kind, meaning = _TABLE.get(code, (Invalid, f"the broker refused with error {code}"))
    return kind(f"{what}: {message or meaning}")
