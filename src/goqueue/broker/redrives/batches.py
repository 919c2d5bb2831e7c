"""The batches of a redrive: which letters come next, and how they are published again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import INSIDE
from goqueue.broker.dead_letters.reading import StoredDeadLetter, read_some
from goqueue.broker.messages.publish import Fate, MessageLimits, NewMessage, PartitionTurns
from goqueue.broker.transactions.coordination import init_transactions
from goqueue.broker.transactions.publish import TransactionWriter, publish_in_transaction
from goqueue.errors import (
    GoQueueError,
    InvalidPartitions,
    InvalidRecord,
    InvalidTopicName,
    TooLarge,
    TopicProtected,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.machines.redrives.values import Moves, Redrive, RedriveTerms
from goqueue.model.dead_letters import (
    DeadLetterCause,
    cause_of,
    is_for_dead_letters,
    is_unreadable,
    redriven_headers,
    says_why,
)
from goqueue.model.sinks import stage_id
from goqueue.model.topic import check_name
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.redrives.service import RedriveService

BATCH_LETTERS = 500
ERROR_CHARS_MAX = 500
"""How much is told of an error: it is stored with each batch, and may quote what anybody has written."""

_BATCH_BYTES = 4 * 1024 * 1024
# How many letters are looked at for one batch: there may be many that are not meant.
_LOOKED_AT_MAX = 5_000
_TRANSACTION_MS = 60_000

# What no later attempt would change.
_REFUSALS = (
    InvalidPartitions,
    InvalidRecord,
    InvalidTopicName,
    TooLarge,
    TopicProtected,
    UnknownPartition,
    UnknownTopic,
)


class Gathered(NamedTuple):
    """The letters that come next, what became of those that are left out, and the offset behind all of them.

    `error` is why the last letter of those failed that can never be read or published.
    """

    letters: Sequence[tuple[Record, DeadLetterCause]]
    moves: Moves
    end: int
    error: str = ""


class Staged(NamedTuple):
    """What was published in a transaction that is still open; `error` is why the last of those failed that did."""

    writer: TransactionWriter
    moved: tuple[int, ...]
    moves: Moves
    error: str


class RedriveVerdict(NamedTuple):
    """What is to become of a letter that is meant: it is left out as one of `moves` says, or published again.

    `error` is why it has failed, if it has.
    """

    moves: Moves | None
    error: str = ""


def judge(redrives: RedriveService, topic: str, terms: RedriveTerms, letter: StoredDeadLetter) -> RedriveVerdict | None:
    """Say what is to become of a letter in a topic, by a redrive or in its preview; None if it is not meant."""
    _, record, cause, is_redriven = letter
    if not terms.selection.means(cause, record.key, record.timestamp):
        return None
    if is_redriven and not terms.repeats:
        return RedriveVerdict(Moves(redriven=1))
    if terms.redrives_max is not None and cause.redrives >= terms.redrives_max:
        return RedriveVerdict(Moves(looping=1))
    if not is_for_dead_letters(topic) and not says_why(record.headers):
        return RedriveVerdict(Moves(failed=1), "a message does not say why it died, so it may be no letter")
    if is_unreadable(record.headers):
        where = f"offset {cause.offset} of {cause.topic}-{cause.partition}"
        return RedriveVerdict(
            Moves(failed=1), f"the message at {where} could not be read, so there is none to publish again"
        )
    # A target that was named is the same for all, and was looked at before.
    if terms.target is None and (refusal := _refusal(redrives, cause.topic)) is not None:
        return RedriveVerdict(Moves(failed=1), refusal.message[:ERROR_CHARS_MAX])
    return RedriveVerdict(None)


def _refusal(redrives: RedriveService, target: str) -> GoQueueError | None:
    """Return why nothing can be published to a topic, ever; letters name it, and anybody may have written these."""
    if not target:
        return InvalidRecord("a letter does not say which topic it comes from", hint="name a target")
    try:
        check_name(target)
        # Whatever was deleted is not made anew.
        opened = redrives.topics.topic(target)
    except (InvalidTopicName, UnknownTopic) as error:
        return error
    if opened.topic.is_internal:
        return TopicProtected(f"{target!r} holds the broker's own state, and nobody else writes to it")
    return None


async def gather(redrives: RedriveService, job: Redrive, partition: Partition) -> Gathered:
    """Look for the next letters of a partition; those that cannot be read or published have failed."""
    span = job.spans[partition.index]
    wanted = _wanted(job)
    letters: list[tuple[Record, DeadLetterCause]] = []
    moves = Moves()
    position, looked_at, size, trouble = span.position, 0, 0, ""
    while position < span.end and looked_at < _LOOKED_AT_MAX:
        try:
            records, reached, unreadable, error = read_some(partition, position, span.end)
        except GoQueueError:
            if position == span.position:
                raise
            break
        moves += Moves(failed=unreadable)
        trouble = error[:ERROR_CHARS_MAX] or trouble
        for record in records:
            if len(letters) >= wanted or size >= _BATCH_BYTES or looked_at >= _LOOKED_AT_MAX:
                return Gathered(letters, moves, position, trouble)
            position = record.offset + 1
            looked_at += 1
            is_redriven = redrives.redriven.has(job.topic_id, partition.index, record.offset)
            letter = StoredDeadLetter(partition.index, record, cause_of(record.headers), is_redriven)
            verdict = judge(redrives, job.topic, job.terms, letter)
            if verdict is not None and verdict.moves is not None:
                moves += verdict.moves
                trouble = verdict.error or trouble
            elif verdict is not None:
                letters.append((record, letter.cause))
                size += record.size_bytes
        position = max(position, reached)
        await turns(1)
    return Gathered(letters, moves, position, trouble)


def _wanted(job: Redrive) -> int:
    wanted = BATCH_LETTERS if job.left is None else min(BATCH_LETTERS, job.left)
    # What a second brings at most, so that the rate is kept evenly.
    return wanted if job.terms.rate is None else min(wanted, max(int(job.terms.rate), 1))


def sink_of(job: Redrive) -> str:
    """Return the name under which the batches of a redrive are committed."""
    return f"goqueue-redrive-{job.id}"


async def stage(redrives: RedriveService, job: Redrive, letters: Sequence[tuple[Record, DeadLetterCause]]) -> Staged:
    """Publish letters in a transaction of their own, which nobody has committed yet; a former one is aborted.

    Raises what may be better later.
    """
    transactional_id = stage_id(sink_of(job), 0, 0)
    identity = await init_transactions(redrives.transactions, INSIDE, transactional_id, _TRANSACTION_MS)
    writer = TransactionWriter(transactional_id, identity)
    by_target: dict[str, list[tuple[Record, DeadLetterCause]]] = {}
    for record, cause in letters:
        by_target.setdefault(job.terms.target or cause.topic, []).append((record, cause))
    moved: list[int] = []
    failed = 0
    error = ""
    for target, some in by_target.items():
        fates = await _publish(redrives, writer, target, some, job.terms)
        for (record, _), fate in zip(some, fates, strict=True):
            if isinstance(fate, _REFUSALS):
                failed += 1
                error = fate.message[:ERROR_CHARS_MAX]
            elif isinstance(fate, GoQueueError):
                raise fate
            else:
                moved.append(record.offset)
    return Staged(writer, tuple(sorted(moved)), Moves(moved=len(moved), failed=failed), error)


async def _publish(
    redrives: RedriveService,
    writer: TransactionWriter,
    target: str,
    letters: Sequence[tuple[Record, DeadLetterCause]],
    terms: RedriveTerms,
) -> Sequence[Fate]:
    # The topic may be gone since the letters were judged.
    if (refusal := _refusal(redrives, target)) is not None:
        return [refusal] * len(letters)
    count = 0 if terms.target is not None else redrives.topics.partition_count(target)
    messages = [_message(record, cause, count) for record, cause in letters]
    try:
        # A topic takes back what it has taken before.
        limits = MessageLimits.NONE if terms.target is None else MessageLimits.TOPIC
        return await publish_in_transaction(
            redrives.transactions, INSIDE, PartitionTurns(), writer, target, messages, limits
        )
    except _REFUSALS as error:
        return [error] * len(letters)


def _message(record: Record, cause: DeadLetterCause, partitions: int) -> NewMessage:
    """Return a letter as it is published again: in the partition that it was in, if there is one."""
    is_there = cause.partition is not None and cause.partition < partitions
    return NewMessage(record.key, record.value, redriven_headers(record.headers), cause.partition if is_there else None)
