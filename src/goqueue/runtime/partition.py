"""The owner of one partition: only it appends to the log and decides how far the log may be read.

    start_offset  <=  last_stable_offset  <=  high_watermark  <=  end_offset

Readers see records below the high watermark, and read-committed readers those below the last stable offset. With
`goqueue.flush=group` the high watermark is the durable end of the log: no reader sees records that a power loss could
remove. With `interval` it is the end, once the first append after a start is durable. It never goes back.

Appends come in sections: what one request holds for this partition. The sections of one call share one write, and
each has an outcome of its own. There is no await between reading state and changing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

from goqueue.errors import (
    CorruptBatch,
    CorruptLog,
    EpochFenced,
    GoQueueError,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTransactionState,
    LogOffline,
    OffsetOutOfRange,
    UnknownEpoch,
    UnknownProducer,
    UnreadableBatch,
    UnsupportedFormat,
)
from goqueue.log.batches import NewBatch, check_batches, own_batch
from goqueue.log.log import Log
from goqueue.log.reader import TimedOffset
from goqueue.machines.producer import Duplicate, Refused
from goqueue.model.log_settings import FlushPolicy
from goqueue.model.topic import TopicPartition, is_internal
from goqueue.model.topic_settings import Stamp, TopicSettings
from goqueue.records.control import ControlType, build_marker
from goqueue.records.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    PREFIX_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    headers,
    write_header,
)
from goqueue.records.reader import DECOMPRESSED_BYTES_MAX
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.maintenance import keep_up, write_ending
from goqueue.runtime.opened_batches import OpenedBatches, StoredRecords
from goqueue.runtime.waiters import Waiters, arrival
from goqueue.seams.clock import Clock
from goqueue.seams.syncs import Syncs

NO_TIMESTAMP = -1
NEW_RECORDS_MAX = 250_000
"""How many records a batch may have that a client sends: more than the smallest ones that a megabyte holds."""
# Length, attributes, two deltas, key, value and the number of headers take a byte each at least.
_RECORD_BYTES_MIN = 7
_LENGTH_OF_NO_RECORDS = HEADER_BYTES - PREFIX_BYTES
_MOVED_BYTES_MAX = 2**31 - 1
_FORBIDDEN_TO_CLIENTS = CONTROL_BIT | DELETE_HORIZON_BIT


class Appended(NamedTuple):
    """A section is in the log, or was already; it is committed once the high watermark reaches `end_offset`.

    `timestamp` is what the broker stamped, if it did. `start_offset` is where the log starts.
    """

    base_offset: int
    end_offset: int
    timestamp: int = NO_TIMESTAMP
    start_offset: int = -1


Outcome = Appended | GoQueueError

# Calling the class goes through a Python function, and there is one for each request.
_appended = partial(tuple.__new__, Appended)


class Partition:
    """One partition of a topic, on the event loop that owns it."""

    def __init__(
        self,
        topic: str,
        index: int,
        log: Log,
        settings: TopicSettings,
        clock: Clock,
        threads: Executor | None = None,
        syncs: Syncs | None = None,
        opened: OpenedBatches | None = None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.place = TopicPartition(topic, index)
        self.is_internal = is_internal(topic)
        self.log = log
        self.settings = settings
        self.leader_epoch = log.leader_epoch
        self.waiters = Waiters()
        self.flusher = Flusher(log, threads, self._progressed, syncs)
        self.high_watermark = log.durable_end
        # All that is before was written before the start.
        self.opened_end = log.durable_end
        # Set when the topic is deleted: the error for readers that still hold the partition.
        self.gone: GoQueueError | None = None
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        # Before this an administrator has deleted records; that is not stored, so it is known since the start only.
        self.deleted_before = 0
        self._durable_start = log.start_offset
        # Where the log began when its watchers were last woken.
        self._told_start = log.start_offset
        self._clock = clock
        self._threads = threads
        self._opened = OpenedBatches() if opened is None else opened
        self._raise_high_watermark()
        if log.is_unopened:
            log.on_open = self._log_opened

    @property
    def last_stable_offset(self) -> int:
        """Where the oldest open transaction starts, but never beyond the high watermark."""
        return min(self.log.last_stable_offset, self.high_watermark)

    def open_batch(
        self, data: bytes, position: int, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
    ) -> StoredRecords:
        """Open a batch that was read from here; UnreadableBatch if it is damaged or malformed."""
        try:
            return self._opened.open(self.place, data, position, header, bytes_max)
        except UnreadableBatch as error:
            raise self._with_end(error, header) from None

    def verify_batch(self, data: bytes, position: int, header: BatchHeader) -> None:
        """Raise UnreadableBatch if a batch that was read from here is damaged.

        Call it before a batch is skipped because of its header: a flipped bit may be the reason.
        """
        try:
            self._opened.verify(self.place, data, position, header)
        except UnreadableBatch as error:
            raise self._with_end(error, header) from None

    def _with_end(self, error: UnreadableBatch, header: BatchHeader) -> UnreadableBatch:
        """Return the error of a batch; if the batch is damaged, with the end from the log, not from its own header."""
        error.without_frames()
        if not error.is_damaged:
            return error
        return UnreadableBatch(
            error.reason,
            base_offset=error.base_offset,
            next_offset=self._end_of_damaged(header),
            record_count=error.record_count,
            is_damaged=True,
        )

    def batches(self, data: bytes) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of the batches that were read from here, as long as each follows the one before.

        A large read is taken from the index, and a damaged header in the middle may claim another offset or length. A
        read at the offset where this ends raises the log's error, which says how far the damage goes.
        """
        due: int | None = None
        try:
            for position, header in headers(data):
                if due is not None and not self._follows(due, header):
                    return
                yield position, header
                due = header.next_offset
        except (CorruptBatch, UnsupportedFormat):
            if due is None:
                raise

    def _follows(self, due: int, header: BatchHeader) -> bool:
        # Compaction takes records out, and leaves gaps.
        return header.base_offset == due or (header.base_offset > due and self.settings.log.compacts)

    def _end_of_damaged(self, header: BatchHeader) -> int:
        """Return the offset of the batch after a damaged one, so that readers skip no other batch."""
        try:
            # When it reads the batch alone, the log checks that the next one follows; it knows where damage ends.
            self.log.read(header.base_offset, bytes_max=1)
        except CorruptLog as error:
            if error.resume_offset is not None:
                return error.resume_offset
        except GoQueueError:
            pass
        return max(min(header.next_offset, self.log.end_offset), header.base_offset + 1)

    def configure(self, settings: TopicSettings) -> None:
        """Use other settings from now on."""
        self.settings = settings
        self.log.configure(settings.log)
        self.flusher.note_change()
        self._raise_high_watermark()
        if self.log.wants_flush:
            self.flusher.note_append()

    def append(
        self,
        sections: Sequence[bytearray | memoryview],
        *,
        is_transactional: bool = False,
        is_awaited: bool = True,
        is_moved: bool = False,
    ) -> list[Outcome]:
        """Append the sections of several requests in order; return the outcome of each.

        A section is stored whole or not at all. Duplicates of an idempotent producer get their original offset. The
        buffers are written to, and may be reused at return. The caller checks that a transaction is open and may write
        here; with `is_transactional` only its records are accepted. Unless `is_awaited`, records become durable with a
        later flush. With `is_moved`, the broker has accepted the records before, and they may have any size.
        """
        bytes_max = _MOVED_BYTES_MAX if is_moved else self.settings.log.max_message_bytes
        outcomes: list[Outcome] = []
        staged: list[tuple[int, list[NewBatch]]] = []
        writers: set[int] = set()
        now_ms = self._clock.now_ms()
        for section in sections:
            try:
                batches = self._admit(section, bytes_max, now_ms, is_transactional=is_transactional)
                producer_id = batches[0].header.producer_id
                if producer_id >= 0:
                    if producer_id in writers:
                        # Its next sequence is known only once the batch before is in the log.
                        self._write(staged, outcomes, is_awaited=is_awaited)
                        staged, writers = [], set()
                    writers.add(producer_id)
                    duplicate = self._judge(batches)
                    if duplicate is not None:
                        outcomes.append(duplicate)
                        continue
            except GoQueueError as error:
                outcomes.append(error)
                continue
            staged.append((len(outcomes), batches))
            outcomes.append(_NOT_YET)
        self._write(staged, outcomes, is_awaited=is_awaited)
        return outcomes

    def _admit(
        self, section: bytearray | memoryview, bytes_max: int, now_ms: int, *, is_transactional: bool
    ) -> list[NewBatch]:
        """Check a section against the rules for what clients may write."""
        settings = self.settings
        batches = check_batches(section, bytes_max=bytes_max)
        if not batches:
            raise InvalidRecord("the request has no records for this partition")
        for batch in batches:
            header = batch.header
            _check_header_of_client(header)
            if bool(header.attributes & TRANSACTIONAL_BIT) is not is_transactional:
                raise _misplaced(is_transactional=is_transactional)
            if header.producer_id >= 0 and len(batches) > 1:
                raise InvalidRecord("an idempotent producer sends one batch per partition and request")
            if settings.stamp is Stamp.CREATE_TIME and header.max_timestamp - now_ms > settings.timestamp_after_max_ms:
                raise InvalidTimestamp(
                    f"a record is stamped {header.max_timestamp - now_ms} ms ahead of the broker's clock",
                    hint="set the clock of the producer right, or raise message.timestamp.after.max.ms",
                )
        return batches if settings.stamp is Stamp.CREATE_TIME else [_stamped(batch, now_ms) for batch in batches]

    def _judge(self, batches: list[NewBatch]) -> Appended | None:
        """Ask the table of producers about a batch; return where it is if it is there already."""
        header = batches[0].header
        verdict = self.log.producers.decide(header)
        if isinstance(verdict, Refused):
            if isinstance(verdict.error, UnknownProducer):
                verdict.error.start_offset = self.log.start_offset
            raise verdict.error
        if isinstance(verdict, Duplicate):
            end = verdict.base_offset + header.last_offset_delta + 1
            return Appended(verdict.base_offset, end, NO_TIMESTAMP, self.log.start_offset)
        return None

    def _write(self, staged: list[tuple[int, list[NewBatch]]], outcomes: list[Outcome], *, is_awaited: bool) -> None:
        if not staged:
            return
        batches = [batch for _, section in staged for batch in section]
        try:
            headers = self.log.append(batches, leader_epoch=self.leader_epoch)
        except GoQueueError as error:
            for number, _ in staged:
                outcomes[number] = error
            return
        is_stamped = self.settings.stamp is Stamp.LOG_APPEND_TIME
        start_offset = self.log.start_offset
        position = 0
        for number, section in staged:
            first = headers[position]
            position += len(section)
            last = headers[position - 1]
            timestamp = last.max_timestamp if is_stamped else NO_TIMESTAMP
            outcomes[number] = _appended((first.base_offset, last.next_offset, timestamp, start_offset))
        count = headers[-1].next_offset - headers[0].base_offset
        self._took(count, sum([len(batch.data) for batch in batches]), is_awaited=is_awaited)

    def _took(self, count: int, size_bytes: int, *, is_awaited: bool) -> None:
        self.records_in += count
        self.bytes_in += size_bytes
        self.flusher.note_append(size_bytes, is_awaited=is_awaited)
        self._raise_high_watermark()

    def end_transaction(self, producer_id: int, epoch: int, *, is_commit: bool) -> int:
        """Write the marker that ends a producer's transaction here; return the offset after it.

        The epoch of the marker fences batches of the producer with an older epoch. Writing it twice is harmless: a
        marker that is there already, or that a newer epoch has overtaken, is not written again.
        """
        if not self.log.producers.wants_marker(producer_id, epoch):
            return self.log.end_offset
        marker = build_marker(
            ControlType.COMMIT if is_commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=max(epoch, self.log.producers.known_epoch(producer_id)),
            timestamp=self._clock.now_ms(),
        )
        return self.append_own(marker)

    def append_own(self, data: bytearray, *, is_awaited: bool = True) -> int:
        """Append a batch that the broker has built itself; return the offset after it. `is_awaited` as of `append`."""
        (header,) = self.log.append([own_batch(data)], leader_epoch=self.leader_epoch)
        # Markers do not count as messages.
        self._took(0 if header.is_control else header.record_count, len(data), is_awaited=is_awaited)
        return header.next_offset

    def check_read(self, offset: int, known_epoch: int = -1) -> None:
        """Raise the error that keeps a reader from reading at an offset, now or later."""
        if self.gone is not None:
            raise self.gone
        self.check_epoch(known_epoch)
        if not self.log.start_offset <= offset <= self.log.end_offset:
            raise OffsetOutOfRange(offset, start=self.log.start_offset, end=self.high_watermark)

    def read(self, offset: int, *, bytes_max: int, is_committed_only: bool = False) -> bytes:
        """Return whole batches from an offset on, as far as a reader may see; empty if there are none yet."""
        if self.gone is not None:
            raise self.gone
        end = self.last_stable_offset if is_committed_only else self.high_watermark
        return self.log.read(offset, bytes_max=bytes_max, end_offset=end)

    def bytes_after(self, offset: int) -> int:
        """Return about how many bytes a reader at an offset could get; 0 only if there is nothing."""
        return self.log.segments.bytes_from(offset) if offset < self.high_watermark else 0

    def offset_for_time(self, timestamp: int) -> TimedOffset | None:
        """Return the first visible record with that timestamp or a later one."""
        return self._if_visible(self.log.offset_for_time(timestamp))

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """Return the first record with the greatest timestamp, if readers may see it."""
        return self._if_visible(self.log.offset_of_max_timestamp())

    def _if_visible(self, found: TimedOffset | None) -> TimedOffset | None:
        return found if found is not None and found.offset < self.high_watermark else None

    @property
    def starts_by_request(self) -> bool:
        """Whether the log starts where it does because an administrator deleted records, and not by retention.

        Retention moves the start from segment to segment, so a start inside a segment shows it after a restart, too.
        """
        log = self.log
        is_inside = not log.is_unopened and log.start_offset > log.segments.first.base_offset
        return is_inside or 0 < log.start_offset <= self.deleted_before

    def check_epoch(self, known_epoch: int) -> None:
        """Refuse a caller whose leader epoch (-1 for none) is not that of this partition."""
        if known_epoch < 0 or known_epoch == self.leader_epoch:
            return
        kind = EpochFenced if known_epoch < self.leader_epoch else UnknownEpoch
        raise kind(f"{self.topic}-{self.index} has leader epoch {self.leader_epoch}, not {known_epoch}")

    async def delete_before(self, offset: int) -> int:
        """Delete the records before an offset, durably; return the new start. -1 stands for all that is visible."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRange(offset, start=self.log.start_offset, end=self.high_watermark)
        if target > self.log.start_offset:
            self.log.delete_before(target)
            self.deleted_before = target
            self.flusher.note_append()
        if target > self._durable_start:
            # Another request may have deleted them just now: that must become durable, too.
            await self.flusher.synced()
            if self.log.fault:
                raise LogOffline(self.log.fault)
            self._durable_start = max(self._durable_start, target)
        return self.log.start_offset

    async def committed(self, offset: int) -> None:
        """Wait until the high watermark reaches an offset; LogOffline if it cannot any more."""
        if offset > self.high_watermark and not self.log.fault:
            self.flusher.hurry()
            await arrival(partial(self.waiters.wait_for, offset))
        self.require_committed(offset)

    def require_committed(self, offset: int) -> None:
        """Raise LogOffline if an offset that was waited for is not committed."""
        if offset > self.high_watermark:
            raise self.offline()

    def offline(self) -> LogOffline:
        """Return the error for writes to a log that is offline."""
        return LogOffline(f"{self.topic}-{self.index} takes no writes: {self.log.fault or 'it is closed'}")

    async def close(self) -> None:
        """Make everything durable, wake all waiters, and close the log."""
        await self.flusher.drain()
        if not self.log.is_unopened:
            # The slow part runs in a thread, in parallel with other partitions.
            await keep_up(self.log, self._threads, is_checkpoint_due=True)
            await write_ending(self.log, self._threads)
        self.log.close()
        self.waiters.wake_all()

    def _progressed(self) -> None:
        if self.log.fault:
            self.waiters.wake_all()
            return
        self._raise_high_watermark()
        if self.log.start_offset > self._told_start:
            # A reader may wait for the end of a removed message.
            self._told_start = self.log.start_offset
            self.waiters.wake_watchers()

    def _log_opened(self) -> None:
        """Take over the state of a log that was just opened: its files may hold more than was known."""
        self.leader_epoch = self.log.leader_epoch
        # It has files to be closed again, and perhaps producers that fall silent.
        self.flusher.note_change()
        self._raise_high_watermark()

    def _raise_high_watermark(self) -> None:
        is_durable_only = self.settings.log.flush is FlushPolicy.GROUP or self.log.is_unmarked
        end = self.log.durable_end if is_durable_only else self.log.end_offset
        if end > self.high_watermark:
            self.high_watermark = end
            self.waiters.reached(end)


_NOT_YET = LogOffline("the section was not written")


def _stamped(batch: NewBatch, now_ms: int) -> NewBatch:
    """Give a batch the time of its append."""
    attributes = batch.header.attributes | LOG_APPEND_TIME_BIT
    header = batch.header._replace(attributes=attributes, max_timestamp=now_ms)
    write_header(batch.data, header)
    return NewBatch(header, batch.data)


def _check_header_of_client(header: BatchHeader) -> None:
    """Refuse batches that clients may not write, though a log could store them."""
    attributes = header.attributes
    count = header.record_count
    if count != header.last_offset_delta + 1:
        raise InvalidRecord(f"a batch says {count} records, but has offsets for {header.last_offset_delta + 1}")
    if not 0 < count <= NEW_RECORDS_MAX:
        raise InvalidRecord(
            f"a batch has {count} records, which is not between 1 and {NEW_RECORDS_MAX}",
            hint="send fewer records in a batch (batch.size, batch.num.messages)",
        )
    if attributes & _FORBIDDEN_TO_CLIENTS:
        raise InvalidRecord(_forbidden(header))
    if attributes & LOG_APPEND_TIME_BIT:
        raise InvalidTimestamp("only the broker says that it has stamped records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(f"producer {header.producer_id} sent no sequence")
    if not attributes & CODEC_MASK and header.length < count * _RECORD_BYTES_MIN + _LENGTH_OF_NO_RECORDS:
        raise InvalidRecord(f"a batch of {header.size_bytes} bytes cannot hold {count} records")


def _forbidden(header: BatchHeader) -> str:
    if header.is_control:
        return "only the broker writes control batches"
    return "only compaction sets a delete horizon"


def _misplaced(*, is_transactional: bool) -> GoQueueError:
    if is_transactional:
        return InvalidRecord("a transactional producer sent records that are part of no transaction")
    return InvalidTransactionState("records of a transaction were sent without a transactional id")
