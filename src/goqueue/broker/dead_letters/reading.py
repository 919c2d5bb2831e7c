"""Reading dead letters: some of them at a time, from either end of a partition.

Letters are ordinary records, so a read is the life of a fetch without the wire; only what is committed is seen, or only
what no transaction has written. Opening records is work on the event loop: whoever reads many lets others have a turn
between two pieces. Anybody may write where letters are, so batches that cannot be opened are passed over, and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from goqueue.broker.messages.aborted import Aborted
from goqueue.broker.messages.fetch import aborted_in
from goqueue.errors import UnreadableBatch
from goqueue.model.dead_letters import DeadLetterCause
from goqueue.records.reader import DECOMPRESSED_BYTES_MAX, SLICE_RECORDS, Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import give_way

_READ_BYTES = 1024 * 1024
_PIECE_LETTERS = 256
# Most who look at the newest letters want only some of them.
_FIRST_PIECE_LETTERS = 64
_PIECE_BYTES = 4 * 1024 * 1024
# A letter is as large as its message, which could be read, and what it says beside.
_OPENED_BYTES_MAX = DECOMPRESSED_BYTES_MAX + 1024 * 1024
# What a letter takes beside its bytes, so that small ones are not kept by the million.
_OVERHEAD_BYTES = 300


class StoredDeadLetter(NamedTuple):
    """A dead letter: the partition where it lies, the record, what it says of its cause, and what became of it."""

    partition: int
    record: Record
    cause: DeadLetterCause
    is_redriven: bool


class DeadLetterPiece(NamedTuple):
    """Letters, the offset behind all that was looked at, and how many of these cannot be read, with the last error."""

    records: list[Record]
    reached: int
    unreadable: int = 0
    error: str = ""


class DeadLetterBatch(NamedTuple):
    """The letters of a batch, from its first offset to its end; if they cannot be read, how many there are, and why.

    What `is_damaged` is not what was written; other batches that nobody can read were written so.
    """

    start: int
    end: int
    records: list[Record]
    unreadable: int = 0
    error: str = ""
    is_damaged: bool = False


def read_some(partition: Partition, start: int, end: int, bytes_max: int = _PIECE_BYTES) -> DeadLetterPiece:
    """Return some letters between two offsets, from the first one on: whole batches, unless these are too large.

    A batch that cannot be read is a piece of its own.
    """
    found: list[Record] = []
    reached, size = end, 0
    for batch in open_batches(partition, start, end):
        if batch.unreadable:
            return (
                DeadLetterPiece(found, reached)
                if found
                else DeadLetterPiece([], min(batch.end, end), batch.unreadable, batch.error)
            )
        for record in batch.records:
            if start <= record.offset < end:
                size += record.size_bytes + _OVERHEAD_BYTES
                if found and size > bytes_max:
                    return DeadLetterPiece(found, found[-1].offset + 1)
                found.append(record)
        reached = min(batch.end, end)
        if len(found) >= _PIECE_LETTERS or size >= bytes_max or reached == end:
            break
    return DeadLetterPiece(found, reached)


def open_batches(
    partition: Partition, start: int, end: int, *, leaves_out_transactions: bool = False
) -> Iterator[DeadLetterBatch]:
    """Yield batches, from the one with an offset on, as many as one read brings; each is opened when asked for.

    Of a large batch only what lies from the offset on comes, in several parts. Without transactions there are more:
    what was written while one is open is seen, too.
    """
    start = max(start, partition.log.start_offset)
    is_committed_only = not leaves_out_transactions
    data = partition.read(start, bytes_max=_READ_BYTES, is_committed_only=is_committed_only) if start < end else b""
    if not data:
        return
    aborted = Aborted(aborted_in(partition, start, data) if is_committed_only else ())
    for position, header in partition.batches(data):
        base, next_offset = header.base_offset, header.next_offset
        is_left_out = leaves_out_transactions and header.is_transactional
        begin = start if header.record_count > SLICE_RECORDS else base
        try:
            if is_left_out or aborted.hides(header) or header.is_control:
                partition.verify_batch(data, position, header)
                yield DeadLetterBatch(base, next_offset, [])
                continue
            opened = partition.open_batch(data, position, header, _OPENED_BYTES_MAX)
            # Small batches are used as a whole, by those who go backwards as well.
            for records in opened.slices(start if header.record_count > SLICE_RECORDS else 0):
                reached = records[-1].offset + 1
                is_last = reached > header.last_offset
                yield DeadLetterBatch(max(base, begin), next_offset if is_last else reached, records)
                begin = reached
            if begin < next_offset:
                yield DeadLetterBatch(max(base, begin), next_offset, [])
        except UnreadableBatch as error:
            count = error.record_count
            yield DeadLetterBatch(max(base, begin), error.next_offset, [], count, error.message, error.is_damaged)


class DeadLetterRange:
    """The letters of a partition between two offsets, taken one by one from one of the two ends.

    `start` and `end` say what is left, so that it can be gone on with later. No more than about `bytes_max` are kept.
    """

    def __init__(
        self, partition: Partition, start: int, end: int, *, is_backwards: bool, bytes_max: int = _PIECE_BYTES
    ) -> None:
        self.partition = partition
        self.start = max(start, partition.log.start_offset)
        self.end = min(end, partition.last_stable_offset)
        self._is_backwards = is_backwards
        self._bytes_max = bytes_max
        # What was read and not taken yet, and where the rest begins or ends.
        self._read: deque[Record] = deque()
        self._kept_bytes = 0
        self._edge = self.end if is_backwards else self.start
        self._piece_letters = _FIRST_PIECE_LETTERS
        # How many letters of which batches cannot be read.
        self._unreadable: dict[int, int] = {}

    @property
    def unreadable(self) -> int:
        """How many letters were passed over, since they cannot be read."""
        return sum(self._unreadable.values())

    async def first(self) -> Record | None:
        """Return the letter that is taken next; None if there is none left."""
        while not self._read and self.start < self.end:
            await (self._fill_backwards() if self._is_backwards else self._fill())
            if not self._read:
                self._leave(self._edge)
        return self._read[0] if self._read else None

    def take(self) -> Record:
        """Return the letter that `first` has returned, and go on behind it."""
        taken = self._read.popleft()
        self._leave(taken.offset if self._is_backwards else taken.offset + 1)
        if not self._read:
            self._leave(self._edge)
        return taken

    def _leave(self, offset: int) -> None:
        if self._is_backwards:
            self.end = offset
        else:
            self.start = offset

    async def _fill(self) -> None:
        piece = read_some(self.partition, self.start, self.end, self._bytes_max)
        self._read.extend(piece.records)
        if piece.unreadable:
            self._unreadable[self.start] = piece.unreadable
        self._edge = piece.reached
        await give_way()

    async def _fill_backwards(self) -> None:
        kept: deque[Record] = deque()
        offset = low = self._low()
        self._kept_bytes = 0
        is_over = False
        while offset < self._edge and not is_over:
            is_over = True
            for batch in open_batches(self.partition, offset, self._edge):
                # A batch that is opened is used as a whole, as far as there is room for it.
                low = self._keep(kept, batch, max(min(low, batch.start), self.start))
                offset, is_over = batch.end, batch.end >= self._edge
                await give_way()
                if is_over:
                    break
        self._read.extendleft(kept)
        self._edge = low

    def _keep(self, kept: deque[Record], batch: DeadLetterBatch, low: int) -> int:
        """Add the letters of a batch to those that are kept, which begin at `low`; return where they begin now."""
        if batch.unreadable:
            self._unreadable[batch.start] = batch.unreadable
        for record in batch.records:
            if self.start <= record.offset < self._edge:
                kept.append(record)
                self._kept_bytes += record.size_bytes + _OVERHEAD_BYTES
        while self._kept_bytes > self._bytes_max and len(kept) > 1:
            left = kept.popleft()
            self._kept_bytes -= left.size_bytes + _OVERHEAD_BYTES
            low = left.offset + 1
        return low

    def _low(self) -> int:
        """Return where the next piece begins, if it ends at the edge: not too many letters, nor too many bytes."""
        count = self._piece_letters
        self._piece_letters = min(count * 4, _PIECE_LETTERS)
        behind = self.partition.bytes_after(self._edge)
        while True:
            low = max(self._edge - count, self.start)
            if count == 1 or self.partition.bytes_after(low) - behind <= min(_PIECE_BYTES, self._bytes_max):
                return low
            count = max(count // 4, 1)
