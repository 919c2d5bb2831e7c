"""A naive transaction coordinator: mutable, in plain words, and with nothing to store.

It follows what users are told: one identity may act, what was decided stays, whoever ends a transaction hears of it
when it has ended, and who did not hear may ask again until the answer is in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from goqueue.machines.decision import Now
from goqueue.machines.transactions.values import (
    Abort,
    AddOffsets,
    AddPartitions,
    Command,
    Complete,
    EndTransaction,
    Expire,
    Forget,
    Init,
    ProducerEpoch,
    Transaction,
)
from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState

Identity = tuple[int, int]
Told = list[tuple[int, object]]

LAST_EPOCH = 32_766
WEEK_MS = 7 * 24 * 3600 * 1000


class Refusal(Exception):
    """A command is refused, with a code."""


@dataclass
class Known:
    """What the model has of a transactional id; `deadline` is its next one, of whichever kind."""

    holder: Identity | None
    timeout: int
    deadline: int | None
    touched: int
    marker: Identity
    asker: Identity | None = None
    phase: str = "idle"
    fate: str = ""
    after: Identity | None = None
    content: set[object] = field(default_factory=set)
    count: int = 0
    ends: list[int] = field(default_factory=list)
    init: tuple[int, Init] | None = None


class Model:
    """All transactional ids."""

    def __init__(self) -> None:
        self.ids: dict[str, Known] = {}

    def handle(self, command: Command, ticket: int, now: Now) -> Told:
        """Do as told; return who is told what, errors by their codes."""
        known = self.ids.get(command.id)
        if isinstance(command, Init):
            return self._init(known, command, ticket, now)
        if isinstance(command, Complete | Expire | Forget):
            told = [] if known is None else self._housekeeping(known, command, now)
            return [*told, (ticket, None)]
        if known is None:
            raise Refusal("unknown_transaction" if isinstance(command, Abort) else "producer_mismatch")
        match command:
            case Abort():
                return self._abort(known, ticket, now)
            case EndTransaction():
                return self._end(known, command, ticket, now)
            case AddPartitions():
                self._add(known, (command.producer_id, command.epoch), set(command.partitions), now)
            case AddOffsets():
                self._add(known, (command.producer_id, command.epoch), {command.group}, now)
        return [(ticket, None)]

    def refusal_of(self, name: str, caller: Identity, partition: TopicPartition) -> str | None:
        """Return why somebody may not write to a partition; None if he may."""
        known = self.ids.get(name)
        if known is None:
            return "producer_mismatch"
        try:
            _only_holder(known, caller)
        except Refusal as refusal:
            return str(refusal)
        is_open = known.phase == "open" and partition in known.content
        return None if is_open else "invalid_transaction_state"

    def copy(self) -> Model:
        """Return a model that can be tried out."""
        other = Model()
        for name, known in self.ids.items():
            other.ids[name] = replace(known, content=set(known.content), ends=list(known.ends))
        return other

    def restart(self, now: Now) -> None:
        """Forget who waits; begin to count time anew."""
        for known in self.ids.values():
            known.ends, known.init = [], None
            if known.phase == "open":
                known.deadline = now.monotonic_ms + known.timeout
            elif known.phase == "idle":
                left = max(0, min(WEEK_MS, known.touched + WEEK_MS - now.wall_ms))
                known.deadline = now.monotonic_ms + left

    def _init(self, known: Known | None, command: Init, ticket: int, now: Now) -> Told:
        if not 1 <= command.timeout_ms <= 900_000:
            raise Refusal("invalid_transaction_timeout")
        if known is None:
            new = (command.spare_producer_id, 0)
            week = now.monotonic_ms + WEEK_MS
            self.ids[command.id] = Known(new, command.timeout_ms, week, now.wall_ms, new, command.known)
            return [(ticket, new)]
        if command.known is not None and command.known not in (known.asker, known.holder):
            raise Refusal("transaction_fenced")
        if known.phase == "open":
            _close(known, "abort", now, by=command.known, spare=command.spare_producer_id, raises=True)
        if known.phase == "closing":
            told: Told = [(known.init[0], "concurrent_transactions")] if known.init else []
            known.init = (ticket, command)
            return told
        _give(known, command, now)
        return [(ticket, known.holder)]

    def _add(self, known: Known, caller: Identity, content: set[object], now: Now) -> None:
        _only_holder(known, caller)
        if known.phase == "closing":
            raise Refusal("concurrent_transactions")
        if content <= known.content:
            return
        known.touched = now.wall_ms
        if known.phase == "idle":
            known.phase, known.fate, known.asker = "open", "", None
            known.count += 1
            known.deadline = now.monotonic_ms + known.timeout
        known.content |= content

    def _end(self, known: Known, command: EndTransaction, ticket: int, now: Now) -> Told:
        caller = (command.producer_id, command.epoch)
        fate = "commit" if command.is_commit else "abort"
        if known.phase == "open":
            _only_holder(known, caller)
            raises = command.bumps_epoch
            _close(known, fate, now, by=caller, spare=command.spare_producer_id, raises=raises)
            known.ends.append(ticket)
            return []
        if known.fate and caller == known.asker:
            if fate != known.fate:
                raise Refusal("invalid_transaction_state")
            return self._join(known, ticket)
        _only_holder(known, caller)
        if fate == "commit" or not command.bumps_epoch:
            raise Refusal("invalid_transaction_state")
        _close(known, "abort", now, by=caller, spare=command.spare_producer_id, raises=True)
        _closed(known, now)
        return [(ticket, known.holder)]

    def _abort(self, known: Known, ticket: int, now: Now) -> Told:
        if known.phase == "open":
            _close(known, "abort", now, by=None, spare=-1, raises=True)
        elif known.fate != "abort":
            raise Refusal("invalid_transaction_state")
        return self._join(known, ticket)

    def _join(self, known: Known, ticket: int) -> Told:
        if known.phase == "idle":
            return [(ticket, known.marker)]
        known.ends.append(ticket)
        if len(known.ends) > 8:
            return [(known.ends.pop(0), "concurrent_transactions")]
        return []

    def _housekeeping(self, known: Known, command: Complete | Expire | Forget, now: Now) -> Told:
        is_due = known.deadline is not None and known.deadline <= now.monotonic_ms
        if isinstance(command, Forget) and known.phase == "idle" and is_due:
            del self.ids[command.id]
        if isinstance(command, Expire) and known.phase == "open" and is_due:
            _close(known, "abort", now, by=None, spare=-1, raises=True)
        if not isinstance(command, Complete) or known.phase != "closing":
            return []
        if (command.producer_id, command.epoch) != known.marker or command.number != known.count:
            return []
        ends, init = known.ends, known.init
        _closed(known, now)
        told: Told = [(ticket, known.marker) for ticket in ends]
        if init is not None:
            _give(known, init[1], now)
            told.append((init[0], known.holder))
        return told


def _only_holder(known: Known, caller: Identity) -> None:
    if caller[0] != known.marker[0]:
        raise Refusal("producer_mismatch")
    if caller != known.holder:
        raise Refusal("transaction_fenced")


def _close(known: Known, fate: str, now: Now, *, by: Identity | None, spare: int, raises: bool) -> None:
    producer, epoch = known.marker
    if raises:
        known.marker, known.holder = (producer, epoch + 1), None
    is_last = raises and by is not None and epoch + 1 > LAST_EPOCH
    known.after = (spare, 0) if is_last else known.marker
    known.phase, known.fate, known.asker = "closing", fate, by
    known.deadline, known.touched = None, now.wall_ms


def _closed(known: Known, now: Now) -> None:
    assert known.after is not None
    known.marker = known.after
    known.holder = None if known.asker is None else known.after
    known.phase, known.after, known.content = "idle", None, set()
    known.deadline, known.touched = now.monotonic_ms + WEEK_MS, now.wall_ms
    known.ends, known.init = [], None


def _give(known: Known, command: Init, now: Now) -> None:
    known.timeout = command.timeout_ms
    if command.known is not None and command.known != known.holder:
        return
    producer, epoch = known.marker
    known.marker = known.holder = (producer, epoch + 1) if epoch < LAST_EPOCH else (command.spare_producer_id, 0)
    known.asker, known.fate = command.known, ""
    known.deadline, known.touched = now.monotonic_ms + WEEK_MS, now.wall_ms


def state_of(known: Known) -> TransactionState:
    if known.phase == "open":
        return TransactionState.ONGOING
    if known.phase == "closing":
        return TransactionState.PREPARE_COMMIT if known.fate == "commit" else TransactionState.PREPARE_ABORT
    return {
        "": TransactionState.EMPTY,
        "commit": TransactionState.COMPLETE_COMMIT,
        "abort": TransactionState.COMPLETE_ABORT,
    }[known.fate]


def handled(model: Model, command: Command, now: Now) -> object:
    """Return the code of a refusal, or who is told what and how the id stands then."""
    try:
        told = model.handle(command, 0, now)
    except Refusal as refusal:
        return str(refusal)
    known = model.ids.get(command.id)
    return told, [(known.marker, known.asker, state_of(known))] if known else []


def commands_of_anybody(name: str, found: Transaction | None, spare: int) -> Iterator[Command]:
    """Yield commands of all kinds, by the present producer, former ones and such that never were."""
    present = found.identity if found else ProducerEpoch(99, 9)
    number = found.number if found else 1
    callers = {present, present._replace(epoch=present.epoch - 1), present._replace(epoch=present.epoch + 1)}
    callers |= {ProducerEpoch(98, 0), (found and found.previous) or present}
    for caller in sorted(callers):
        yield Init(name, 60_000, spare, caller)
        yield AddPartitions(name, *caller, frozenset({TopicPartition("t", 0)}))
        yield AddOffsets(name, *caller, "g")
        yield Complete(name, *caller, number)
        for is_commit, bumps_epoch in product((True, False), repeat=2):
            yield EndTransaction(name, *caller, is_commit=is_commit, bumps_epoch=bumps_epoch, spare_producer_id=spare)
    yield Complete(name, *present, number - 1)
    yield from (Init(name, 60_000, spare), Abort(name), Expire(name), Forget(name))
