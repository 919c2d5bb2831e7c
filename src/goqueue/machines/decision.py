"""What machines have in common: commands are decided at a moment, and a decision is records and answers.

A machine is pure. `decide` looks at a command and changes nothing; its decision says what has to be stored and who is
to be told what. Only once the records are in the log does `adopt` make the decision's outcome the machine's state, so
an append that fails leaves no trace. At start, the same state comes from `apply` over the stored records.

An answer goes to whoever submitted a command under its ticket: the one being decided, or an earlier one that was not
answered then and waits since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Now(NamedTuple):
    """The moment of a decision: `wall_ms` for what is stored, `monotonic_ms` for deadlines."""

    wall_ms: int
    monotonic_ms: int


class KeyedRecord(NamedTuple):
    """A fact under its key; without a value, it holds no longer."""

    key: bytes
    value: bytes | None


class TicketReply(NamedTuple):
    """What the one who waits under a ticket is told; a GoQueueError is raised there."""

    ticket: int
    reply: object


class Decision(msgspec.Struct, frozen=True):
    """What carries out a command; `outcome` is for the machine's own `adopt`.

    Answers wait until the records are durable, unless `is_told_at_once`: then it is enough that they are written, and
    nothing is broken if a power loss takes them back. If `is_idle`, nothing changes by it.
    """

    records: Sequence[KeyedRecord] = ()
    answers: Sequence[TicketReply] = ()
    outcome: object = None
    is_told_at_once: bool = False
    is_idle: bool = False
