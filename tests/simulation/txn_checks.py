"""Whether transactions are what they are called: all of one or nothing, in the end and for every reader on the way.

What there is in the end is read once more by somebody who is alone (`ReadAll`). Everything else is measured by it: what
was acknowledged has to be there, and every read on the way must have seen just that, between its two offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from goqueue.errors import ConcurrentTransactions, UnstableOffsets
from goqueue.machines.transactions.values import ProducerEpoch
from goqueue.model.topic import TopicPartition
from tests.simulation.group_calls import FetchOffsets
from tests.simulation.group_history import NEVER, Call, History
from tests.simulation.group_offset_checks import Key, Write
from tests.simulation.txn_calls import (
    AddGroup,
    AddPartition,
    End,
    FindEnds,
    InitProducer,
    Read,
    ReadAll,
    Records,
    Send,
    SendOffsets,
)


@dataclass(slots=True)
class Transaction:
    """All that was done under one label; what belongs to no transaction is one of its own."""

    label: str
    sends: list[tuple[Call, Send]] = field(default_factory=list)
    offsets: list[tuple[Call, SendOffsets]] = field(default_factory=list)
    ends: list[tuple[Call, End]] = field(default_factory=list)

    @property
    def is_committed(self) -> bool | None:
        """Whether it is committed, by what its producer was told; None if that leaves it open."""
        if any(send.id is None for _, send in self.sends):
            return next((True if call.is_done else None if call.is_in_doubt else False for call, _ in self.sends))
        if any(call.is_done and end.is_commit for call, end in self.ends):
            return True
        may_be = any(end.is_commit and _may_have_happened(call) for call, end in self.ends)
        return None if may_be and not self.is_aborted else False

    @property
    def is_aborted(self) -> bool:
        """Whether its producer was told that it is aborted."""
        return any(call.is_done and not end.is_commit for call, end in self.ends)


def _may_have_happened(call: Call) -> bool:
    # Whoever waits for an end can be told to ask again.
    return not call.is_refused or isinstance(call.answer, ConcurrentTransactions)


@dataclass(slots=True)
class Truth:
    """What there is in the end: records by place, for topics that are still there."""

    topics: dict[str, UUID] = field(default_factory=dict)
    committed: dict[TopicPartition, Records] = field(default_factory=dict)
    all: dict[TopicPartition, Records] = field(default_factory=dict)

    def has(self, call: Call, place: TopicPartition) -> bool:
        """Tell whether what was read or written in a call was of a topic that is there."""
        return bool(call.answer.topic_id == self.topics.get(place.topic))


def check_transactions(history: History) -> list[str]:
    """Return all that is wrong with records and transactions."""
    truth = _truth(history)
    transactions = _transactions(history)
    return [
        *_faults_of_logs(truth),
        *_faults_of_reads(history, truth),
        *(fault for each in transactions.values() for fault in _faults_of(each, truth)),
        *_faults_of_ends(history),
    ]


def offsets_of_transactions(history: History) -> Iterator[tuple[Key, Write]]:
    """Yield the offsets that transactions have set, or may have set: at some moment while they were being ended."""
    truth = _truth(history)
    for transaction in _transactions(history).values():
        is_committed = _fate(transaction, truth)
        if is_committed is False or not transaction.offsets:
            continue
        ends = [call for call, end in transaction.ends if end.is_commit]
        began = min(call.began for call in ends)
        until = min((call.ended for call in ends if call.is_done), default=NEVER)
        for call, request in transaction.offsets:
            for each in request.command.offsets if not call.is_refused else ():
                key = Key(request.command.group, each.partition)
                is_sure = is_committed is True and call.is_done
                yield key, Write(each.value.offset, began, until, is_sure)


# -- what there is


def _truth(history: History) -> Truth:
    truth = Truth()
    for call, request in history.of(ReadAll):
        truth.topics[request.place.topic] = call.answer.topic_id
        records = truth.committed if request.is_committed_only else truth.all
        records[request.place] = call.answer.records
    return truth


def _transactions(history: History) -> dict[str, Transaction]:
    found: dict[str, Transaction] = {}
    for send in history.of(Send):
        found.setdefault(send[1].label, Transaction(send[1].label)).sends.append(send)
    for offsets in history.of(SendOffsets):
        found.setdefault(offsets[1].label, Transaction(offsets[1].label)).offsets.append(offsets)
    for end in history.of(End):
        found.setdefault(end[1].label, Transaction(end[1].label)).ends.append(end)
    return found


def _fate(transaction: Transaction, truth: Truth) -> bool | None:
    """Tell whether a transaction is committed; if its producer does not know, by what there is."""
    if transaction.is_committed is not None:
        return transaction.is_committed
    stored = [(send.place, call) for call, send in transaction.sends if call.is_done and truth.has(call, send.place)]
    for place, call in stored:
        return call.answer.offset in dict(truth.committed[place])
    return None


# -- what is wrong


def _faults_of_logs(truth: Truth) -> Iterator[str]:
    for place, records in truth.all.items():
        committed = truth.committed[place]
        if not set(committed) <= set(records):
            yield f"{place} has other records for those who read committed ones: {set(committed) - set(records)}"
        values = [value for _, value in records]
        if len(set(values)) != len(values):
            yield f"{place} has records twice: {sorted({value for value in values if values.count(value) > 1})}"
        last: dict[bytes, int] = {}
        for offset, value in records:
            client, _, number = value.split(b".")[0], *value.rsplit(b".", 1)
            if int(number) <= last.get(client, -1):
                yield f"{place} has {value!r} at {offset}, behind {last[client]}"
            last[client] = int(number)


def _faults_of_reads(history: History, truth: Truth) -> Iterator[str]:
    reads: list[tuple[Call, Read | ReadAll]] = [*history.of(Read), *history.of(ReadAll)]
    for call, request in reads:
        if not call.is_done or not truth.has(call, request.place):
            continue
        records = truth.committed if request.is_committed_only else truth.all
        seen = call.answer
        expected = tuple(each for each in records[request.place] if seen.start <= each[0] < seen.end)
        if seen.records != expected:
            yield f"{call.who} saw {seen} at {request.place}, where there is {expected}"


def _faults_of(transaction: Transaction, truth: Truth) -> Iterator[str]:
    label = transaction.label
    if transaction.is_aborted and transaction.is_committed:
        yield f"{label} was said to be committed, and to be aborted"
    fate = _fate(transaction, truth)
    for call, send in transaction.sends:
        if call.is_done and truth.has(call, send.place):
            yield from _faults_of_send(label, fate, call, send, truth)
        elif fate is False and send.place in truth.all:
            for offset, value in truth.committed[send.place]:
                if value in send.values:
                    yield f"{value!r} is at {offset} of {send.place}, though {label} is aborted"


def _faults_of_send(label: str, fate: bool | None, call: Call, send: Send, truth: Truth) -> Iterator[str]:
    stored, committed = dict(truth.all[send.place]), dict(truth.committed[send.place])
    for number, value in enumerate(send.values):
        offset = call.answer.offset + number
        if stored.get(offset) != value:
            yield f"{value!r} was stored at {offset} of {send.place}, where there is {stored.get(offset)!r}"
        if (committed.get(offset) == value) is not fate:
            wanted = "committed" if fate else "aborted"
            yield f"{value!r} at {offset} of {send.place} is {committed.get(offset)!r}, though {label} is {wanted}"


def _faults_of_ends(history: History) -> Iterator[str]:
    for call, request in history.of(FindEnds):
        stable, high, end = call.answer
        if not stable == high == end:
            yield f"{request.place} is stuck: {call.answer}"
    for call, fetched in history.of(FetchOffsets):
        if call.who == "end" and any(isinstance(each, UnstableOffsets) for each in call.answer.values()):
            yield f"offsets of {fetched.group} wait for a transaction for ever: {call.answer}"


# -- who may act


def check_identities(history: History) -> list[str]:
    """Return what was done under identities that another one had replaced, and identities that two were given."""
    faults = []
    told: dict[ProducerEpoch, Call] = {}
    takeovers: dict[str, list[Call]] = {}
    for call, request in history.of(InitProducer):
        if call.is_done:
            takeovers.setdefault(request.id, []).append(call)
            if request.known is None and call.answer in told:
                faults.append(f"{call.answer} was given to {told[call.answer].who} and to {call.who}")
            told.setdefault(call.answer, call)
    for call, _ in history.of(End):
        if call.is_done:
            told.setdefault(call.answer, call)
    return [*faults, *_faults_of_zombies(history, told, takeovers)]


def _faults_of_zombies(
    history: History, told: Mapping[ProducerEpoch, Call], takeovers: Mapping[str, Sequence[Call]]
) -> Iterator[str]:
    acts: list[tuple[Call, AddPartition | AddGroup | SendOffsets | Send | End]] = [
        *history.of(AddPartition),
        *history.of(AddGroup),
        *history.of(SendOffsets),
        *history.of(Send),
        *history.of(End),
    ]
    for call, request in acts:
        if not call.is_done or request.id is None:
            continue
        since = told[request.identity].ended
        for other in takeovers.get(request.id, ()):
            if since < other.began and other.ended < call.began and other.answer != request.identity:
                yield f"{call.who} could {request} after {other.who} had become {other.answer}"
