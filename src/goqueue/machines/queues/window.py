"""One partition of a queue group: messages that are done, in flight, or not delivered yet.

    0 ............ floor ............................... cursor ............
       all done         each one done or in flight        never delivered

Messages between floor and cursor are kept in chunks of 256: one bit for each that is done, and a flight for each that
is not. So a million messages, acknowledged in any order, take some hundred kilobytes. A missing chunk is done up to the
cursor: so done messages cost nothing, nor does a gap in the log, however large. `validate` has the invariants. Up to
the cursor, messages were delivered as the log was in the leader epoch `epoch`: if a later epoch begins before the
cursor, the log has lost its messages from there on, and has other messages in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import NamedTuple
from uuid import UUID

from goqueue.machines.groups.offsets import NO_EPOCH
from goqueue.machines.queues.values import Flight, FlightState, LetterPlace

CHUNK_MESSAGES = 256
SHIFT = 8
FULL = (1 << CHUNK_MESSAGES) - 1
INDEX_MASK = CHUNK_MESSAGES - 1


class Chunk:
    """256 messages: a bit for each that is done, a flight for each that is not. Never changed once adopted."""

    __slots__ = ("done", "flights")

    def __init__(self, done: int = 0, flights: Mapping[int, Flight] | None = None) -> None:
        self.done = done
        self.flights: dict[int, Flight] = {} if flights is None else dict(flights)

    def alike(self, meant: Callable[[Flight], bool] = lambda _: True) -> dict[Flight, list[int]]:
        """Return the flights that `meant` selects, each with its messages in order."""
        found: dict[Flight, list[int]] = {}
        for offset in sorted(self.flights):
            flight = self.flights[offset]
            if meant(flight):
                found.setdefault(flight, []).append(offset)
        return found


class FlightChange(NamedTuple):
    """Messages of one chunk that change state together; None before their first delivery, and once they are done."""

    offsets: Sequence[int]
    before: Flight | None
    after: Flight | None


class QueueWindow:
    """The state of a partition for a group; `ready`, `dead` and `by_key` are indexes over the chunks."""

    def __init__(self, topic_id: UUID, floor: int, cursor: int, epoch: int = NO_EPOCH) -> None:
        self.topic_id = topic_id
        self.floor = floor
        self.cursor = cursor
        self.epoch = epoch
        self.chunks: dict[int, Chunk] = {}
        # In the order in which they became ready or dead.
        self.ready: dict[int, None] = {}
        self.dead: dict[int, None] = {}
        # The messages in flight of each key, by offset: all but the first are held.
        self.by_key: dict[bytes, dict[int, None]] = {}
        # Where the dead letters of dead messages are, if they were written.
        self.letter_places: tuple[LetterPlace, ...] = ()
        # Messages that were dead at the start, whose dead letter may have been written before.
        self.old_dead: set[int] = set()
        self.leased = 0
        self.held = 0
        self.in_flight = 0
        # Whether a power loss may still undo that the group has started here.
        self.is_new = False
        # Where the log has lost messages that were before the cursor, until the group has gone back there.
        self.lost_end: int | None = None

    def copy(self) -> QueueWindow:
        """Return a copy; it shares the chunks, which never change."""
        copied = copy(self)
        copied.chunks, copied.ready, copied.dead = dict(self.chunks), dict(self.ready), dict(self.dead)
        copied.by_key = {key: dict(row) for key, row in self.by_key.items()}
        copied.old_dead = set(self.old_dead)
        return copied

    def find(self, offset: int) -> Flight | None:
        """Return the flight of a message, or None."""
        chunk = self.chunks.get(offset >> SHIFT)
        return None if chunk is None else chunk.flights.get(offset)

    def is_done(self, offset: int) -> bool:
        """Return whether a message is never delivered again."""
        if not self.floor <= offset < self.cursor:
            return offset < self.floor
        chunk = self.chunks.get(offset >> SHIFT)
        return chunk is None or bool(chunk.done >> (offset & INDEX_MASK) & 1)

    def states(self) -> Counter[FlightState]:
        """Count the messages in flight by state, from the indexes alone."""
        counted = {
            FlightState.LEASED: self.leased,
            FlightState.READY: len(self.ready),
            FlightState.HELD: self.held,
            FlightState.DEAD: len(self.dead),
        }
        counted[FlightState.WAITING] = self.in_flight - sum(counted.values())
        return Counter({state: count for state, count in counted.items() if count})

    def in_flight_before(self, offset: int) -> int:
        """Count the messages in flight before an offset: whole chunks by size, the last one message by message."""
        border = offset >> SHIFT
        whole = sum(len(chunk.flights) for index, chunk in self.chunks.items() if index < border)
        last = self.chunks.get(border)
        return whole + (0 if last is None else sum(each < offset for each in last.flights))

    def load_done(self, index: int, done: int) -> None:
        """Set the stored done messages of a chunk."""
        self.chunks.setdefault(index, Chunk()).done = done

    def load_flights(self, index: int, flights: dict[int, Flight]) -> None:
        """Set the stored messages in flight of a chunk; later records may mark some as done."""
        self.chunks.setdefault(index, Chunk()).flights = flights

    def loaded(self) -> None:
        """Complete the state after all stored records are loaded."""
        for index, chunk in list(self.chunks.items()):
            chunk.flights = {
                offset: flight
                for offset, flight in chunk.flights.items()
                if self.floor <= offset < self.cursor and not chunk.done >> (offset & INDEX_MASK) & 1
            }
            if not chunk.flights and not chunk.done:
                del self.chunks[index]

    def note(self, move: FlightChange) -> None:
        """Rebuild the indexes from the chunks."""
        offsets, before, after = move
        if before is not None:
            self._forget(offsets, before)
            if before.key is not None and (after is None or after.key is None):
                self._leave_key(offsets, before.key)
        if after is None:
            return
        self.in_flight += len(offsets)
        if after.state is FlightState.LEASED:
            self.leased += len(offsets)
        elif after.state is FlightState.READY:
            self.ready.update(dict.fromkeys(offsets))
        elif after.state is FlightState.DEAD:
            self.dead.update(dict.fromkeys(offsets))
        elif after.state is FlightState.HELD:
            self.held += len(offsets)
        if after.key is not None:
            self.by_key.setdefault(after.key, {}).update(dict.fromkeys(offsets))

    def _forget(self, offsets: Sequence[int], before: Flight) -> None:
        self.in_flight -= len(offsets)
        if before.state is FlightState.LEASED:
            self.leased -= len(offsets)
        elif before.state is FlightState.HELD:
            self.held -= len(offsets)
        elif before.state in {FlightState.READY, FlightState.DEAD}:
            row = self.ready if before.state is FlightState.READY else self.dead
            for offset in offsets:
                del row[offset]
                self.old_dead.discard(offset)

    def _leave_key(self, offsets: Sequence[int], key: bytes) -> None:
        """Remove messages from the queue of their key."""
        row = self.by_key[key]
        for offset in offsets:
            row.pop(offset, None)
        if not row:
            del self.by_key[key]

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        assert 0 <= self.floor <= self.cursor
        flights = {offset: flight for chunk in self.chunks.values() for offset, flight in chunk.flights.items()}
        assert self.floor == self.cursor or not self.is_done(self.floor), (
            "the floor is before a message that is not done"
        )
        for index, chunk in self.chunks.items():
            start = index << SHIFT
            assert self.floor < start + CHUNK_MESSAGES, "a chunk below the floor is forgotten"
            assert chunk.done != FULL, "a chunk with all messages done is forgotten"
            for offset in range(start, start + CHUNK_MESSAGES):
                is_done, is_flying = bool(chunk.done >> (offset - start) & 1), offset in chunk.flights
                is_inside = self.floor <= offset < self.cursor
                assert not (is_done and is_flying), f"{offset} is done and in flight"
                assert is_inside == (is_done or is_flying) or offset < self.floor, (
                    f"{offset} is neither done nor in flight"
                )
                assert is_inside or not is_flying, f"{offset} is in flight outside of the window"
        in_state = {state: {o for o, f in flights.items() if f.state is state} for state in FlightState}
        assert set(self.ready) == in_state[FlightState.READY]
        assert set(self.dead) == in_state[FlightState.DEAD]
        assert self.old_dead <= in_state[FlightState.DEAD]
        assert self.leased == len(in_state[FlightState.LEASED])
        assert self.held == len(in_state[FlightState.HELD])
        assert self.in_flight == len(flights)
        assert self.states() == Counter(flight.state for flight in flights.values())
        for key, row in self.by_key.items():
            assert list(row) == sorted(row) == sorted(o for o, f in flights.items() if f.key == key)
            first, *others = row
            assert flights[first].state is not FlightState.HELD, f"{first} is held by no message"
            assert all(flights[each].state is FlightState.HELD for each in others), "one message of a key at a time"
