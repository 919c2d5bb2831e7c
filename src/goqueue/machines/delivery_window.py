"""One partition as a queue group sees it: what is done, what is in flight, and where it was not looked yet.

    0 ............ floor ............................... cursor ............
       all done         each one done or in flight        never looked at

What lies between floor and cursor is kept in chunks of 256 messages: one bit for each that is done, and a flight for
each that is not. So a million messages, acknowledged in any order, take some hundred kilobytes. A chunk that is not
there is done, as far as the cursor goes: so what is done is forgotten, and a gap in the log costs nothing, however
large. `validate` says what must hold. In the leader epoch `epoch`, the log was as it was delivered up to the cursor: if
a later epoch begins before that, it has lost what it had from there on, and has other messages in its place.

A window changes by drafts. A draft takes copies of the chunks that it changes, so a decision can be made, stored, and
only then adopted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from goqueue.machines.delivery_values import Flight, FlightState
from goqueue.machines.offsets import NO_EPOCH
from goqueue.model.order import is_increasing

CHUNK_MESSAGES = 256
SHIFT = 8
_FULL = (1 << CHUNK_MESSAGES) - 1
_FULL_INDEX = CHUNK_MESSAGES - 1


class Chunk:
    """256 messages: a bit for each that is done, a flight for each that is not. Never changed once adopted."""

    __slots__ = ("done", "flights")

    def __init__(self, done: int = 0, flights: Mapping[int, Flight] | None = None) -> None:
        self.done = done
        self.flights: dict[int, Flight] = {} if flights is None else dict(flights)


class Move(NamedTuple):
    """Messages of one chunk that get into another state together; None if they were never looked at, or are done."""

    offsets: Sequence[int]
    before: Flight | None
    after: Flight | None


class Window:
    """The state of a partition for a group; `ready`, `dead` and `by_key` are found in the chunks as well."""

    def __init__(self, topic_id: UUID, floor: int, cursor: int, epoch: int = NO_EPOCH) -> None:
        self.topic_id = topic_id
        self.floor = floor
        self.cursor = cursor
        self.epoch = epoch
        self.chunks: dict[int, Chunk] = {}
        # In the order in which they became so.
        self.ready: dict[int, None] = {}
        self.dead: dict[int, None] = {}
        # Of each key its messages in flight, in the order of their offsets: only the first of them is not held.
        self.by_key: dict[bytes, dict[int, None]] = {}
        # Who has died of one of these may have got a letter before the start, however late that is noticed.
        self.old_leases: Collection[int] = ()
        self.leased = 0
        self.held = 0
        self.in_flight = 0
        # From where on the log has lost what it had before the cursor, until the group has gone back there.
        self.lost_end: int | None = None

    def find(self, offset: int) -> Flight | None:
        """Return where a message is, if it is in flight."""
        chunk = self.chunks.get(offset >> SHIFT)
        return None if chunk is None else chunk.flights.get(offset)

    def is_done(self, offset: int) -> bool:
        """Tell whether a message is never delivered again."""
        if not self.floor <= offset < self.cursor:
            return offset < self.floor
        chunk = self.chunks.get(offset >> SHIFT)
        return chunk is None or bool(chunk.done >> (offset & _FULL_INDEX) & 1)

    def load_done(self, index: int, done: int) -> None:
        """Take note of what is stored as done in a chunk."""
        self.chunks.setdefault(index, Chunk()).done = done

    def load_flights(self, index: int, flights: dict[int, Flight]) -> None:
        """Take note of what is stored as in flight in a chunk, and may be done since."""
        self.chunks.setdefault(index, Chunk()).flights = flights

    def loaded(self) -> None:
        """Make what was loaded whole: all that is stored is known."""
        for index, chunk in list(self.chunks.items()):
            chunk.flights = {
                offset: flight
                for offset, flight in chunk.flights.items()
                if self.floor <= offset < self.cursor and not chunk.done >> (offset & _FULL_INDEX) & 1
            }
            if not chunk.flights and not chunk.done:
                del self.chunks[index]

    def note(self, move: Move) -> None:
        """Keep the books that can be made from the chunks."""
        offsets, before, after = move
        if before is not None:
            self._forget(offsets, before)
        if after is None:
            if before is not None and before.key is not None:
                self._leave_key(offsets, before.key)
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

    def _leave_key(self, offsets: Sequence[int], key: bytes) -> None:
        """Take messages that are done out of the row of their key."""
        row = self.by_key[key]
        for offset in offsets:
            row.pop(offset, None)
        if not row:
            del self.by_key[key]

    def validate(self) -> None:
        """Check what must always hold."""
        assert 0 <= self.floor <= self.cursor
        flights = {offset: flight for chunk in self.chunks.values() for offset, flight in chunk.flights.items()}
        assert self.floor == self.cursor or not self.is_done(self.floor), "the floor stands before what is not done"
        for index, chunk in self.chunks.items():
            start = index << SHIFT
            assert self.floor < start + CHUNK_MESSAGES, "a chunk below the floor is forgotten"
            assert chunk.done != _FULL, "a chunk of which all is done is forgotten"
            for offset in range(start, start + CHUNK_MESSAGES):
                is_done, is_flying = bool(chunk.done >> (offset - start) & 1), offset in chunk.flights
                is_inside = self.floor <= offset < self.cursor
                assert not (is_done and is_flying), f"{offset} is done and in flight"
                assert is_inside == (is_done or is_flying) or offset < self.floor, f"{offset} is nowhere"
                assert is_inside or not is_flying, f"{offset} flies outside of the window"
        in_state = {state: {o for o, f in flights.items() if f.state is state} for state in FlightState}
        assert set(self.ready) == in_state[FlightState.READY]
        assert set(self.dead) == in_state[FlightState.DEAD]
        assert self.leased == len(in_state[FlightState.LEASED])
        assert self.held == len(in_state[FlightState.HELD])
        assert self.in_flight == len(flights)
        for key, row in self.by_key.items():
            assert list(row) == sorted(row) == sorted(o for o, f in flights.items() if f.key == key)
            first, *others = row
            assert flights[first].state is not FlightState.HELD, f"{first} waits for nobody"
            assert all(flights[each].state is FlightState.HELD for each in others), "one message of a key at a time"


class Draft:
    """Changes of a window that are not made yet."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.cursor = window.cursor
        self.floor = window.floor
        self.epoch = window.epoch
        self.changed: dict[int, Chunk] = {}
        self.forgotten: Sequence[int] = ()
        # Chunks in which something is in flight that was not, or was elsewhere.
        self.rewritten: set[int] = set()
        self.moves: list[Move] = []
        self.lost_end = window.lost_end
        # How many messages wait for others of their key by now, of which keys messages have come to fly, and how many
        # of those that were offered again nobody else need look at.
        self.held = window.held
        self.keys: set[bytes] = set()
        self.gone_through = 0
        # What the window holds still, and will not, whatever else changes.
        self._dropped: Collection[int] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        window = self.window
        is_still = (self.cursor, self.floor, self.epoch) == (window.cursor, window.floor, window.epoch)
        return is_still and not self.moves and not self.changed

    def find(self, offset: int) -> Flight | None:
        """Return where a message will be."""
        chunk = self._look(offset >> SHIFT)
        return None if chunk is None else chunk.flights.get(offset)

    def put(self, offset: int, flight: Flight) -> None:
        """Have a message in flight from now on, or in another state."""
        self.moves.append(Move((offset,), self.find(offset), flight))
        self._chunk(offset >> SHIFT).flights[offset] = flight
        self.rewritten.add(offset >> SHIFT)

    def put_fresh(self, offsets: Sequence[int], flight: Flight) -> None:
        """Have messages in flight that were never looked at before, all in the same state."""
        for index, part in _by_chunk(offsets):
            self.moves.append(Move(part, None, flight))
            self._chunk(index).flights.update(dict.fromkeys(part, flight))
            self.rewritten.add(index)

    def finish(self, offset: int) -> None:
        """Have a message done that is in flight; the next one of its key may be delivered then."""
        chunk = self._chunk(offset >> SHIFT)
        flight = chunk.flights.pop(offset)
        chunk.done |= 1 << (offset & _FULL_INDEX)
        self.moves.append(Move((offset,), flight, None))
        self.held -= flight.state is FlightState.HELD
        if flight.key is not None:
            self._let_next(flight.key)

    def finish_all(self, offsets: Sequence[int], may_finish: Callable[[Flight], bool]) -> list[bool]:
        """Have messages done, in any order, as far as they are in flight and may be; tell of each whether it is."""
        if len(offsets) == 1 or not is_increasing(offsets):
            return [self._finish_if(offset, may_finish) for offset in offsets]
        fates: list[bool] = []
        for index, part in _by_chunk(offsets):
            if self._finish_run(index, part, may_finish):
                fates += [True] * len(part)
            else:
                fates += [self._finish_if(offset, may_finish) for offset in part]
        return fates

    def _finish_if(self, offset: int, may_finish: Callable[[Flight], bool]) -> bool:
        flight = self.find(offset)
        if flight is None or not may_finish(flight):
            return False
        self.finish(offset)
        return True

    def _finish_run(self, index: int, offsets: Sequence[int], may_finish: Callable[[Flight], bool]) -> bool:
        """Have messages of one chunk done if all of them fly together, as those do that came together."""
        known = self._look(index)
        if known is None:
            return False
        flights = list(map(known.flights.get, offsets))
        shared = flights[0]
        if shared is None or shared.key is not None or flights.count(shared) < len(flights) or not may_finish(shared):
            return False
        chunk = self._chunk(index)
        for offset in offsets:
            del chunk.flights[offset]
        chunk.done |= _bits(offsets)
        self.moves.append(Move(offsets, shared, None))
        return True

    def _let_next(self, key: bytes) -> None:
        """Have the first message of a key that is left wait no longer, unless it is one for which others wait."""
        for offset in self.window.by_key.get(key, ()):
            first = self.find(offset)
            if first is not None:
                if first.state is FlightState.HELD:
                    self.held -= 1
                    self.put(offset, first._replace(state=FlightState.READY))
                return

    def advance(self, end: int, fresh: Sequence[int]) -> None:
        """Move the cursor; what lies before it and is not among the fresh ones is done: there is no message."""
        start = self.cursor
        # While the cursor is where it was: what is missing in a chunk is done as far as the cursor goes.
        touched = {index: self._chunk(index) for index, _ in _by_chunk(fresh)}
        if len(fresh) < end - start:
            for index in {start >> SHIFT, (end - 1) >> SHIFT, *touched}:
                base = index << SHIFT
                low, high = max(start - base, 0), min(end - base, CHUNK_MESSAGES)
                self._chunk(index).done |= ((1 << high) - 1) & ~((1 << low) - 1)
            for offset in fresh:
                touched[offset >> SHIFT].done &= ~(1 << (offset & _FULL_INDEX))
        self.cursor = end

    def lose(self, start: int) -> None:
        """Forget everything before an offset, which is not in the log any more. Nothing was changed before."""
        if start >= self.cursor:
            self.restart(start)
            return
        chunks = [chunk for index, chunk in self.window.chunks.items() if index <= start >> SHIFT]
        # The last ones first: of a key of which a thousand are held, only one looks for the next that is left.
        for offset in sorted((each for chunk in chunks for each in chunk.flights if each < start), reverse=True):
            self.finish(offset)
        self.floor = max(self.floor, start)

    def restart(self, offset: int) -> None:
        """Forget all that is in flight, and go on at another offset. Nothing was changed before."""
        for chunk in self.window.chunks.values():
            self.moves += [Move((each,), flight, None) for each, flight in chunk.flights.items()]
        self._dropped = frozenset(self.window.chunks)
        self.changed = {}
        self.held = 0
        self.floor = self.cursor = offset
        self.lost_end = None

    def retreat(self, end: int) -> None:
        """Forget everything from an offset on, which the log has lost. Nothing was changed before."""
        for index in [each for each in self.window.chunks if each >= end >> SHIFT]:
            for offset in [each for each in self.window.chunks[index].flights if each >= end]:
                flight = self._chunk(index).flights.pop(offset)
                self.moves.append(Move((offset,), flight, None))
                self.rewritten.add(index)
        last = self._look(end >> SHIFT)
        if last is not None:
            self._chunk(end >> SHIFT).done = last.done & ((1 << (end & _FULL_INDEX)) - 1)
        self._dropped = frozenset(each for each in self.window.chunks if each > end >> SHIFT)
        self.changed = {index: chunk for index, chunk in self.changed.items() if index not in self._dropped}
        self.cursor, self.floor, self.lost_end = end, min(self.floor, end), None

    def close(self) -> None:
        """Find out how far everything is done, and what can be forgotten with that."""
        floor = self.floor
        while floor < self.cursor:
            chunk = self._look(floor >> SHIFT)
            position = floor & _FULL_INDEX
            missing = 0 if chunk is None else ~(chunk.done >> position) & (_FULL >> position)
            if chunk is not None and missing:
                floor += (missing & -missing).bit_length() - 1
                break
            floor = (floor - position) + CHUNK_MESSAGES if chunk is not None else self._next_chunk(floor >> SHIFT)
        self.floor = min(floor, self.cursor)
        done = [*self._passed(), *[index for index, chunk in self.changed.items() if chunk.done == _FULL]]
        for index in done:
            self.changed.pop(index, None)
        known = self.window.chunks
        self.forgotten = sorted({each for each in (*done, *self._dropped) if each in known} - self.changed.keys())

    def _next_chunk(self, index: int) -> int:
        """Return the offset at which the next chunk begins that is there; the cursor if there is none."""
        found = [each for each in (*self.window.chunks, *self.changed) if each > index and self._look(each) is not None]
        return min(found) << SHIFT if found else self.cursor

    def _passed(self) -> Collection[int]:
        """Return the chunks of which nothing is left between floor and cursor."""
        first, end = self.window.floor >> SHIFT, self.floor >> SHIFT
        if self.floor == self.cursor:
            end += 1
        if end - first <= len(self.window.chunks) + len(self.changed):
            return range(first, end)
        return [index for index in (*self.window.chunks, *self.changed) if index < end]

    def adopt(self) -> None:
        """Make the draft the state of its window."""
        window = self.window
        window.floor, window.cursor, window.epoch, window.lost_end = self.floor, self.cursor, self.epoch, self.lost_end
        window.chunks.update(self.changed)
        for index in self.forgotten:
            window.chunks.pop(index, None)
        for move in self.moves:
            window.note(move)

    def _chunk(self, index: int) -> Chunk:
        chunk = self.changed.get(index)
        if chunk is None:
            known = self._look(index)
            if known is None:
                passed = min(max(self.cursor - (index << SHIFT), 0), CHUNK_MESSAGES)
                chunk = Chunk((1 << passed) - 1)
            else:
                chunk = Chunk(known.done, known.flights)
            self.changed[index] = chunk
        return chunk

    def _look(self, index: int) -> Chunk | None:
        chunk = self.changed.get(index)
        if chunk is None and index not in self._dropped:
            return self.window.chunks.get(index)
        return chunk


def _bits(offsets: Sequence[int]) -> int:
    """Return messages of one chunk, which are in order, as bits."""
    first, count = offsets[0], len(offsets)
    if offsets[-1] - first == count - 1:
        return ((1 << count) - 1) << (first & _FULL_INDEX)
    bits = 0
    for offset in offsets:
        bits |= 1 << (offset & _FULL_INDEX)
    return bits


def _by_chunk(offsets: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Part offsets, which are in order, by the chunks that they are in."""
    start = 0
    while start < len(offsets):
        index = offsets[start] >> SHIFT
        end = bisect_left(offsets, (index + 1) << SHIFT, start)
        yield index, offsets[start:end]
        start = end
