"""What of a partition can be delivered to a queue group, with the messages themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.events import UnreadableSkipped
from goqueue.broker.messages.finder import MessageFinder
from goqueue.broker.queues.reading import MessageRanges
from goqueue.errors import Corrupt, CorruptLog, UnreadableBatch
from goqueue.machines.queues.commands import Offer, Unreadable
from goqueue.machines.queues.steps import is_blocked_by_removed_message, within_reach
from goqueue.machines.queues.window import QueueWindow
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.queues.service import QueueService

# How many reads of one look may bring nothing: there may be much that nobody gets.
_FRUITLESS_READS_MAX = 4
# How much one look opens of what is ready again: there may be one message in each of many large batches.
_OPENED_BYTES_MAX = 32 * 1024 * 1024
# How many of those one look goes through: there may be very many that cannot be read.
_READY_MAX = 20_000
_KEY_BYTES_MAX = 16
# How many unreadable messages one look tells of, and how much of why: all of that is stored with them.
UNREADABLE_MAX = 100
ERROR_CHARS_MAX = 300


class Candidates(NamedTuple):
    """What is offered to a group, the messages by their offsets, and how many bytes they have."""

    offer: Offer
    records: Mapping[int, Record]
    size_bytes: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be decided about."""
        offer = self.offer
        return not (offer.fresh or offer.again or offer.gone or offer.unreadable) and not self.has_moved

    @property
    def has_moved(self) -> bool:
        """Whether there is nothing where the group looks next, and more behind that."""
        return self.offer.end > self.offer.looked_from or self.offer.start > self.offer.looked_from


def is_worth_a_look(partition: Partition, window: QueueWindow | None) -> bool:
    """Tell whether there may be something in a partition for a group, which may not have begun with it."""
    if window is None or partition.gone is not None:
        return False
    cursor, start = window.cursor, partition.log.start_offset
    if window.ready or cursor < start:
        return True
    if cursor < partition.high_watermark and cursor < partition.last_stable_offset:
        return True
    return is_blocked_by_removed_message(window, start)


def find_candidates(
    partition: Partition, window: QueueWindow, stretches: MessageRanges, limit: int, bytes_max: int, *, is_ordered: bool
) -> Candidates:
    """Look for messages that a group may get: those that are ready again first, then those behind its cursor."""
    start = partition.log.start_offset
    records: dict[int, Record] = {}
    unreadable: list[Unreadable] = []
    again, gone, size, fault = _find_again(partition, window, limit, bytes_max, records, unreadable)
    if is_blocked_by_removed_message(window, start):
        gone.append(window.floor)
    fresh, end, fresh_size = _find_fresh(
        partition,
        max(window.cursor, start),
        stretches,
        limit - len(again),
        bytes_max - size,
        unreadable,
        has_others=bool(again or gone),
    )
    offsets = [record.offset for record in fresh]
    records.update(zip(offsets, fresh, strict=True))
    keys = {record.offset: short_key(record.key) for record in fresh if record.key is not None} if is_ordered else None
    epoch = partition.leader_epoch
    offer = Offer(partition.place, offsets, end, again, gone, start, keys, window.cursor, epoch, unreadable)
    seen = Candidates(within_reach(window, offer), records, size + fresh_size)
    if fault is not None and seen.is_empty:
        raise fault
    return seen


def _find_fresh(
    partition: Partition,
    end: int,
    stretches: MessageRanges,
    limit: int,
    bytes_max: int,
    unreadable: list[Unreadable],
    *,
    has_others: bool,
) -> tuple[list[Record], int, int]:
    """Return messages from an offset on, how far was looked, and how many bytes they have.

    Batches that cannot be read are passed, and added to those that are `unreadable`. A fault of another kind is raised
    if there is nothing else.
    """
    found: list[Record] = []
    size = 0
    reads_left = _FRUITLESS_READS_MAX
    while reads_left and len(found) < limit and size < bytes_max:
        try:
            stretch = stretches.read(partition, end, limit - len(found), bytes_max - size)
            records, taken = stretch.take(limit - len(found), bytes_max - size)
        except (UnreadableBatch, CorruptLog) as error:
            begin, after = stretch_of(error, end)
            if after is None:
                raise
            unreadable.append(Unreadable(begin, error.message[:ERROR_CHARS_MAX]))
            end = min(after, partition.last_stable_offset)
            reads_left -= 1
            continue
        except Corrupt:
            if found or has_others or unreadable:
                break
            raise
        if stretch.is_empty:
            break
        reads_left -= not records
        found += records
        end = stretch.offset
        size += taken
        stretches.keep(partition, stretch)
    return found, end, size


def stretch_of(error: UnreadableBatch | CorruptLog, offset: int) -> tuple[int, int | None]:
    """Return from where to where nothing can be read, for a reader at an offset; no end if that is not known."""
    if isinstance(error, UnreadableBatch):
        return max(offset, error.base_offset), max(offset + 1, error.next_offset)
    return offset, error.resume_offset


def _find_again(
    partition: Partition,
    window: QueueWindow,
    limit: int,
    bytes_max: int,
    records: dict[int, Record],
    unreadable: list[Unreadable],
) -> tuple[list[int], list[int], int, Corrupt | None]:
    """Return which messages are ready again and still there, which are gone, and how many bytes the former have.

    They are put to the records, up to so many bytes; one of any size always is. Those that cannot be read are added to
    the `unreadable` ones. A fault of another kind is returned as well: it keeps no other back.
    """
    again: list[int] = []
    gone: list[int] = []
    size = 0
    fault: Corrupt | None = None
    if not window.ready:
        return again, gone, size, fault
    finder = MessageFinder(partition, window.ready.keys(), bytes_max)
    for offset in islice(_row(window, finder), _READY_MAX):
        is_far = not finder.is_near(offset)
        if len(again) + len(gone) >= limit or (finder.opened_bytes >= _OPENED_BYTES_MAX and is_far):
            break
        try:
            record = finder.take(offset)
        except (UnreadableBatch, CorruptLog) as error:
            unreadable.append(Unreadable(offset, error.message[:ERROR_CHARS_MAX]))
            if len(unreadable) >= UNREADABLE_MAX:
                break
            continue
        except Corrupt as error:
            fault = error.without_frames()
            continue
        if record is None:
            gone.append(offset)
            continue
        more = record.size_bytes
        if again and size + more > bytes_max:
            break
        size += more
        again.append(offset)
        records[offset] = record
    return again, gone, size, fault


def _row(window: QueueWindow, finder: MessageFinder) -> Iterator[int]:
    """Yield what is ready; whoever asks for the next one has taken the one before.

    The one that was ready first comes first, and then those that lie in its batch, which is open by then: if they came
    by their times, each might lie in another one.
    """
    seen: set[int] = set()
    for oldest in window.ready:
        if oldest in seen:
            continue
        seen.add(oldest)
        yield oldest
        for offset in finder.near():
            # What there was no room to keep may be near once more when its batch is opened again.
            if offset not in seen:
                seen.add(offset)
                yield offset


def report_skipped(queues: QueueService, group: str, offer: Offer) -> None:
    """Report messages that a group skips since they cannot be read; each becomes a dead letter."""
    for offset, error in offer.unreadable:
        queues.core.sink.emit(UnreadableSkipped(group, offer.partition.topic, offer.partition.partition, offset, error))


def find(partition: Partition, offset: int) -> Record | None:
    """Return the message at an offset; None if it is not there any more."""
    return MessageFinder(partition, frozenset(), 0).take(offset)


def short_key(key: bytes) -> bytes:
    """Return what stands for a key where messages of one key wait for each other."""
    # It is stored with each message in flight. Two keys of the same digest would only wait for each other.
    return key if len(key) <= _KEY_BYTES_MAX else blake2b(key, digest_size=_KEY_BYTES_MAX).digest()
