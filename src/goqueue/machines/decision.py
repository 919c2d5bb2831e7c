"""Commands, decisions and records: what all machines have in common.

A machine is pure. `decide` reads a command and changes nothing; its decision has the records to store and the replies
to send. Only after the records are in the log does `adopt` apply the decision, so a failed append leaves no trace. At
start, `apply` rebuilds the same state from the stored records.

A reply goes to the ticket under which a command was submitted: the current command, or an earlier one that has been
waiting since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Now(NamedTuple):
    """The moment of a decision: `wall_ms` for stored times, `monotonic_ms` for deadlines."""

    wall_ms: int
    monotonic_ms: int


class KeyedRecord(NamedTuple):
    """A record under its key; without a value, a tombstone."""

    key: bytes
    value: bytes | None


class TicketReply(NamedTuple):
    """The reply for a ticket; a GoQueueError is raised at its caller."""

    ticket: int
    reply: object


class Decision(msgspec.Struct, frozen=True):
    """Records and replies of a command; `outcome` is for the machine's own `adopt`.

    Replies wait until the records are durable, unless `is_told_at_once`: then it is enough that they are written, and a
    power loss that takes them back breaks nothing. If `is_idle`, nothing changes.
    """

    records: Sequence[KeyedRecord] = ()
    answers: Sequence[TicketReply] = ()
    outcome: object = None
    is_told_at_once: bool = False
    is_idle: bool = False
