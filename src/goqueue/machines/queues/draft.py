"""Drafts of changes to a partition of a queue group.

A draft copies the chunks that it changes, so a decision can be made and stored before it is adopted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby

from goqueue.machines.queues.values import Flight, FlightState
from goqueue.machines.queues.window import CHUNK_MESSAGES, FULL, INDEX_MASK, SHIFT, Chunk, FlightChange, QueueWindow
from goqueue.model.order import is_increasing


class QueueDraft:
    """Changes of a window that are not adopted yet."""

    def __init__(self, window: QueueWindow) -> None:
        self.window = window
        self.cursor = window.cursor
        self.floor = window.floor
        self.epoch = window.epoch
        self.letter_places = window.letter_places
        self.changed: dict[int, Chunk] = {}
        self.forgotten: Sequence[int] = ()
        # Chunks with messages that are newly in flight, or in another state.
        self.rewritten: set[int] = set()
        self.moves: list[FlightChange] = []
        self.lost_end = window.lost_end
        # The number of messages that are held for their key, the keys with new messages in flight, and how many of the
        # messages that were offered again no other consumer need look at.
        self.held = window.held
        self.keys: set[bytes] = set()
        self.gone_through = 0
        # Chunks of the window that go, whatever else changes.
        self._dropped: Collection[int] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        window = self.window
        is_still = (self.cursor, self.floor, self.epoch) == (window.cursor, window.floor, window.epoch)
        return is_still and self.letter_places is window.letter_places and not self.moves and not self.changed

    def find(self, offset: int) -> Flight | None:
        """Return where a message will be."""
        chunk = self._look(offset >> SHIFT)
        return None if chunk is None else chunk.flights.get(offset)

    def put(self, offset: int, flight: Flight) -> None:
        """Put a message in flight, or in another state."""
        self.put_alike((offset,), self.find(offset), flight)

    def put_fresh(self, offsets: Sequence[int], flight: Flight) -> None:
        """Put messages that were never delivered in flight, all in the same state."""
        for _, part in _by_chunk(offsets):
            self.put_alike(part, None, flight)

    def put_alike(self, offsets: Sequence[int], before: Flight | None, after: Flight) -> None:
        """Move messages of one chunk, all of them in the same state, to another state."""
        index = offsets[0] >> SHIFT
        self.moves.append(FlightChange(offsets, before, after))
        self._chunk(index).flights.update(dict.fromkeys(offsets, after))
        self.rewritten.add(index)

    def finish(self, offset: int) -> None:
        """Mark a message in flight as done; the next message of its key may be delivered then."""
        chunk = self._chunk(offset >> SHIFT)
        flight = chunk.flights.pop(offset)
        chunk.done |= 1 << (offset & INDEX_MASK)
        self.moves.append(FlightChange((offset,), flight, None))
        self.held -= flight.state is FlightState.HELD
        if flight.key is not None:
            self._let_next(flight.key)

    def finish_all(self, offsets: Sequence[int], may_finish: Callable[[Flight], bool]) -> list[bool]:
        """Mark messages in flight as done, in any order, if `may_finish`; return for each whether it is done."""
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
        """Mark messages of one chunk as done if all share one flight, as messages that were leased together do."""
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
        self.moves.append(FlightChange(offsets, shared, None))
        return True

    def _let_next(self, key: bytes) -> None:
        """Release the first held message of a key, unless another message of the key is still before it."""
        for offset in self.window.by_key.get(key, ()):
            first = self.find(offset)
            if first is not None:
                if first.state is FlightState.HELD:
                    self.held -= 1
                    self.put(offset, first._replace(state=FlightState.READY))
                return

    def let_all(self) -> None:
        """Release all messages that are held for their key. Nothing may have changed before."""
        for _, chunk in sorted(self.window.chunks.items()):
            held = sorted(offset for offset, flight in chunk.flights.items() if flight.state is FlightState.HELD)
            # Sorted by offset, so that neighbours of one key stay together.
            for flight, run in groupby(held, chunk.flights.__getitem__):
                self.put_alike(list(run), flight, flight._replace(state=FlightState.READY, key=None))
        self.held = 0

    def advance(self, end: int, fresh: Sequence[int]) -> None:
        """Move the cursor; offsets before it that are not among the fresh ones are done: they hold no message."""
        start = self.cursor
        # Before the cursor moves: a chunk without an entry is done only up to the cursor.
        touched = {index: self._chunk(index) for index, _ in _by_chunk(fresh)}
        if len(fresh) < end - start:
            for index in {start >> SHIFT, (end - 1) >> SHIFT, *touched}:
                base = index << SHIFT
                low, high = max(start - base, 0), min(end - base, CHUNK_MESSAGES)
                self._chunk(index).done |= ((1 << high) - 1) & ~((1 << low) - 1)
            for offset in fresh:
                touched[offset >> SHIFT].done &= ~(1 << (offset & INDEX_MASK))
        self.cursor = end

    def lose(self, start: int) -> None:
        """Forget everything before an offset, which retention has removed. Nothing may have changed before."""
        if start >= self.cursor:
            self.restart(start)
            return
        chunks = [chunk for index, chunk in self.window.chunks.items() if index <= start >> SHIFT]
        # The last ones first: of a key with a thousand held messages, only one then searches for its successor.
        for offset in sorted((each for chunk in chunks for each in chunk.flights if each < start), reverse=True):
            self.finish(offset)
        self.floor = max(self.floor, start)

    def restart(self, offset: int) -> None:
        """Forget all messages in flight, and continue at another offset. Nothing may have changed before."""
        for chunk in self.window.chunks.values():
            self.moves += [FlightChange((each,), flight, None) for each, flight in chunk.flights.items()]
        self._dropped = frozenset(self.window.chunks)
        self.changed = {}
        self.held = 0
        self.floor = self.cursor = offset
        self.lost_end = None

    def retreat(self, end: int) -> None:
        """Forget everything from an offset on, which the log has lost. Nothing may have changed before."""
        for index in [each for each in self.window.chunks if each >= end >> SHIFT]:
            for offset in [each for each in self.window.chunks[index].flights if each >= end]:
                flight = self._chunk(index).flights.pop(offset)
                self.moves.append(FlightChange((offset,), flight, None))
                self.rewritten.add(index)
        last = self._look(end >> SHIFT)
        if last is not None:
            self._chunk(end >> SHIFT).done = last.done & ((1 << (end & INDEX_MASK)) - 1)
        self._dropped = frozenset(each for each in self.window.chunks if each > end >> SHIFT)
        self.changed = {index: chunk for index, chunk in self.changed.items() if index not in self._dropped}
        self.cursor, self.floor, self.lost_end = end, min(self.floor, end), None

    def close(self) -> None:
        """Advance the floor over everything that is done, and forget the chunks before it."""
        floor = self.floor
        while floor < self.cursor:
            chunk = self._look(floor >> SHIFT)
            position = floor & INDEX_MASK
            missing = 0 if chunk is None else ~(chunk.done >> position) & (FULL >> position)
            if chunk is not None and missing:
                floor += (missing & -missing).bit_length() - 1
                break
            floor = (floor - position) + CHUNK_MESSAGES if chunk is not None else self._next_chunk(floor >> SHIFT)
        self.floor = min(floor, self.cursor)
        done = [*self._passed(), *[index for index, chunk in self.changed.items() if chunk.done == FULL]]
        for index in done:
            self.changed.pop(index, None)
        known = self.window.chunks
        self.forgotten = sorted({each for each in (*done, *self._dropped) if each in known} - self.changed.keys())

    def _next_chunk(self, index: int) -> int:
        """Return the start of the next chunk that has an entry; the cursor if there is none."""
        found = [each for each in (*self.window.chunks, *self.changed) if each > index and self._look(each) is not None]
        return min(found) << SHIFT if found else self.cursor

    def _passed(self) -> Collection[int]:
        """Return the chunks between floor and cursor in which nothing is left."""
        first, end = self.window.floor >> SHIFT, self.floor >> SHIFT
        if self.floor == self.cursor:
            end += 1
        if end - first <= len(self.window.chunks) + len(self.changed):
            return range(first, end)
        return [index for index in (*self.window.chunks, *self.changed) if index < end]

    def adopt(self) -> None:
        """Apply the draft to its window."""
        window = self.window
        window.floor, window.cursor, window.epoch, window.lost_end = self.floor, self.cursor, self.epoch, self.lost_end
        window.letter_places = self.letter_places
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
    """Return offsets of one chunk, in order, as bits."""
    first, count = offsets[0], len(offsets)
    if offsets[-1] - first == count - 1:
        return ((1 << count) - 1) << (first & INDEX_MASK)
    bits = 0
    for offset in offsets:
        bits |= 1 << (offset & INDEX_MASK)
    return bits


def _by_chunk(offsets: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Split offsets, in order, by chunk."""
    start = 0
    while start < len(offsets):
        index = offsets[start] >> SHIFT
        end = bisect_left(offsets, (index + 1) << SHIFT, start)
        yield index, offsets[start:end]
        start = end
