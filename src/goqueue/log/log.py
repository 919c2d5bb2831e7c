"""One log: batches in, batches out, nothing lost.

A log is owned by one thread, which calls everything here; only the values that `flush`, `upkeep` and compaction hand
out may run elsewhere. Offsets are contiguous, in order and never given twice. The three ends of a log:

    start_offset  <=  durable_end  <=  end_offset
    |                 |                |
    first record      what a power     the next record's offset
    still held        loss cannot take

A log holds one of two things. While it is asleep that is a `Rest`: what is known of it, though its files were not
looked at. The first use of anything that is not in the `Rest` opens it as `recovery` does; from then on it holds an
`Opened`. A method that needs the parts of an open log begins with `_open`, before it looks at anything else: opening
may find another start, end or leader epoch. A log that was never written to has no files; the first append makes them,
and the first flush makes their names durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath

from goqueue.errors import (
    Conflict,
    DiskFull,
    Draining,
    Fenced,
    GoQueueError,
    LogOffline,
    OffsetOutOfRange,
    Unavailable,
)
from goqueue.log import names, retention
from goqueue.log.batches import NewBatch
from goqueue.log.checkpoint import Checkpoint, CheckpointFile
from goqueue.log.compaction import Compaction, Replacement
from goqueue.log.epochs import EpochEnd, LeaderEpochs
from goqueue.log.events import Compacted, OpenFailed, SegmentsExpired, Truncated, UpkeepFailed, WentOffline
from goqueue.log.flush import Flush, Upkeep
from goqueue.log.handles import Handles
from goqueue.log.opened import Opened, never_written, recovered
from goqueue.log.reader import TimedOffset
from goqueue.log.recovery import LogState
from goqueue.log.rest import NEVER_MS, NEW, Rest, changed, difference
from goqueue.log.segment import NO_TIMESTAMP
from goqueue.log.segments import Segments
from goqueue.machines.producer import AbortedRange, ProducerTable
from goqueue.model.log_settings import LogSettings
from goqueue.records.layout import BatchHeader, patch
from goqueue.seams.disk import Disk, make_durable_directory
from goqueue.seams.sink import NullSink, Sink


class Log:
    """The log in one directory."""

    def __init__(
        self,
        disk: Disk,
        directory: PurePath,
        settings: LogSettings,
        sink: Sink | None = None,
        handles: Handles | None = None,
        *,
        rest: Rest | None = None,
    ) -> None:
        """Open the log, making it if the directory is absent; see `recovery` for what that may find.

        With a `rest` nothing is opened before it is needed; the caller vouches that the files are as it says.
        """
        self.directory = directory
        self.settings = settings
        self._disk = disk
        self._sink = sink or NullSink()
        self._handles = handles or Handles(disk)
        self._checkpoint_file = CheckpointFile(disk, directory / names.CHECKPOINT)
        self._is_closed_cleanly = False
        self._is_checkpoint_due = False
        self.fault = ""
        """Why the log takes no appends; empty if it does."""
        self.was_clean = self.is_unmarked = True
        self.on_wake: Callable[[], None] | None = None
        self.wake_error: GoQueueError | None = None
        """Why a log that was asleep cannot be opened; that is told for as long as the broker runs."""
        self._wake_failure = ""
        self._state: Rest | Opened
        if rest is None:
            self._state = self._load(self._recover())
        else:
            self._state = rest
            self.start_offset = rest.start_offset
            self.leader_epoch = rest.leader_epoch

    @property
    def is_asleep(self) -> bool:
        """Whether nothing is known of the log but its `Rest`; waking it blocks for a few reads."""
        return isinstance(self._state, Rest)

    @property
    def segments(self) -> Segments:
        """The segments of the log, which is opened for that if it is asleep."""
        return self._open().segments

    @property
    def producers(self) -> ProducerTable:
        """What is known of its producers; the log is opened for that if it is asleep."""
        return self._open().producers

    @property
    def epochs(self) -> LeaderEpochs:
        """Where its leader epochs start; the log is opened for that if it is asleep."""
        return self._open().epochs

    @property
    def obstacle(self) -> str:
        """Why the log takes no appends, or could not be opened when that was tried last; empty if nothing is wrong."""
        return self.fault or self._wake_failure

    def wake(self) -> None:
        """Open the log if it is asleep; CorruptLog if it is not what it was when it was closed, LogOffline."""
        self._open()

    def _open(self) -> Opened:
        state = self._state
        return self._wake(state) if isinstance(state, Rest) else state

    def _wake(self, rest: Rest) -> Opened:
        if self.wake_error is not None:
            raise self.wake_error.without_frames()
        if self.fault:
            # It is closed, or its topic is being deleted: nobody may touch its files any more.
            raise LogOffline(f"{self.directory} is not open: {self.fault}")
        try:
            state = self._found(rest)
        except Unavailable as error:
            # The disk may answer the next time, so this is tried again with the next use.
            if error.message != self._wake_failure:
                self._wake_failure = error.message
                self._sink.emit(OpenFailed(str(self.directory), error.message))
            raise
        except GoQueueError as error:
            self.wake_error = error
            self.go_offline(f"it cannot be opened: {error}")
            raise
        self._wake_failure = ""
        opened = self._state = self._load(state)
        opened.books.is_unmade = rest is NEW
        if self.on_wake is not None:
            self.on_wake()
        return opened

    def _found(self, rest: Rest) -> LogState:
        """Return what the files of a log hold that was asleep, if they are still there."""
        if rest is NEW:
            return never_written(self.directory)
        if not self._disk.exists(self.directory):
            raise changed(self.directory, rest, "its directory is missing")
        state = self._recover()
        found = (state.start_offset, state.segments[-1].next_offset)
        if found[0] < rest.start_offset or found[1] < rest.end_offset:
            raise changed(self.directory, rest, f"it holds offsets {found[0]} to {found[1]}")
        return state

    def look_at_rest(self) -> Callable[[], str] | None:
        """Return a look at the files of a log that is asleep, which any thread may take; None if there are none.

        It tells how they differ from what they were when the log was closed; if they do, `wake` the log.
        """
        state = self._state
        if not isinstance(state, Rest) or state is NEW or self.fault:
            return None
        return partial(difference, self._disk, self.directory, state)

    def resting(self) -> Rest | None:
        """Return what the next start must know of this log, which is closed, to leave it closed; None if it cannot."""
        state = self._state
        if isinstance(state, Rest):
            return None if state is NEW or self.wake_error is not None else state
        if not self._is_closed_cleanly or state.books.is_unmade or state.first_open_offset is not None:
            return None
        return Rest.of(self.start_offset, self.leader_epoch, state.segments)

    def due_ms(self) -> int:
        """Return the wall-clock moment at which time alone gives upkeep something to do; 0 if it may be now."""
        if self.fault:
            return NEVER_MS
        state = self._state
        rest = state if isinstance(state, Rest) else Rest.of(self.start_offset, self.leader_epoch, state.segments)
        return rest.due_ms(self.settings)

    @property
    def owes_upkeep(self) -> bool:
        """Whether something is not durable yet, or upkeep has something to do."""
        return self._state.owes

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the segment that takes the appends has grown since its index file was written."""
        return self._state.wants_checkpoint

    @property
    def has_producers(self) -> bool:
        """Whether producers are remembered that may fall silent."""
        return self._state.has_producers

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return self._state.size_bytes

    @property
    def segment_count(self) -> int:
        """How many segments there are."""
        return self._state.segment_count

    def _recover(self) -> LogState:
        return recovered(self._disk, self.directory, self.settings, self._sink, self._checkpoint_file)

    def _load(self, state: LogState) -> Opened:
        opened = Opened.of(state, self._disk, self._checkpoint_file, self._handles, self.settings, self._sink)
        self.leader_epoch = max(state.leader_epoch, opened.epochs.latest, 0)
        self.start_offset = state.start_offset
        self.fault = "the disk is read-only" if state.is_read_only else ""
        self._is_checkpoint_due = False
        # Until something new is durable, the next start cannot tell that anything was appended and lost. Whoever shows
        # records before they are durable waits for that: else other records get their offsets in the same epoch.
        self.was_clean = self.is_unmarked = state.is_clean
        return opened

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        return self._state.end_offset

    @property
    def durable_end(self) -> int:
        """The offset before which all records are durable."""
        return self._state.durable_end

    @property
    def last_stable_offset(self) -> int:
        """Where the oldest open transaction starts, or the end: what read-committed readers may see."""
        first = self._state.first_open_offset
        # Its first records may be deleted by now; what is left of it must not be seen all the same.
        return self._state.end_offset if first is None else max(first, self.start_offset)

    @property
    def wants_flush(self) -> bool:
        """Whether a flush is needed that is not yet under way."""
        return self._state.wants_flush

    def configure(self, settings: LogSettings) -> None:
        """Go on with other settings; what was written with the old ones stays as it is."""
        self.settings = settings
        if not isinstance(self._state, Rest):
            self._state.configure(settings)

    def append(self, batches: Sequence[NewBatch], *, leader_epoch: int) -> list[BatchHeader]:
        """Give the batches the next offsets and write them; return their headers as stored.

        All of them are stored, or none: DiskFull leaves the log as it was, LogOffline says that it is broken.
        Durable once a `flush` made after this has run.
        """
        if not batches:
            return []
        opened = self._open()
        if leader_epoch < opened.epochs.latest:
            raise Fenced(f"{self.directory} knows leader epoch {opened.epochs.latest}, newer than {leader_epoch}")
        offset = opened.end_offset
        headers = []
        for batch in batches:
            patch(batch.data, base_offset=offset, leader_epoch=leader_epoch)
            header = batch.header.assigned(offset, leader_epoch)
            headers.append(header)
            offset += header.last_offset_delta + 1
        self._write(opened, headers, batches)
        return headers

    def append_assigned(self, batches: Sequence[NewBatch]) -> None:
        """Write batches that have offsets and leader epochs already, as a replica gets them; Conflict on overlap."""
        opened = self._open()
        offset = opened.end_offset
        for batch in batches:
            if batch.header.base_offset < offset:
                raise Conflict(f"a batch at offset {batch.header.base_offset} would overwrite offset {offset - 1}")
            offset = batch.header.next_offset
        if batches:
            self._write(opened, [batch.header for batch in batches], batches)

    def _write(self, opened: Opened, headers: Sequence[BatchHeader], batches: Sequence[NewBatch]) -> None:
        self._require_online()
        try:
            opened.appender.append(headers, batches)
        except OSError as error:
            raise self._fail("append", error) from error

    def roll(self) -> None:
        """Seal the segment that takes the appends, unless it is empty, and start a new one."""
        opened = self._open()
        self._require_online()
        try:
            opened.appender.roll()
        except OSError as error:
            raise self._fail("roll", error) from error

    def _fail(self, deed: str, error: OSError | GoQueueError) -> LogOffline:
        self.go_offline(f"{deed} failed in {self.segments.active.path} at offset {self.end_offset}: {error}")
        return LogOffline(self.fault)

    def read(self, offset: int, *, bytes_max: int, end_offset: int | None = None) -> bytes:
        """Return whole batches from the one that holds `offset` on, as they are stored.

        At least one batch even if it is larger than `bytes_max`; none that reaches beyond `end_offset`. Nothing at
        the end. OffsetOutOfRange outside of the log, CorruptLog where records are damaged.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, start=self.start_offset, end=self.end_offset)
        end = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        return self._open().segments.read(offset, bytes_max=bytes_max, end_offset=end) if offset < end else b""

    def offset_for_time(self, timestamp: int) -> TimedOffset | None:
        """Return the first record with a timestamp at or after the given one; timestamps may be out of order."""
        if self.start_offset == self.end_offset:
            return None
        return self._open().segments.first_at_time(timestamp, start_offset=self.start_offset)

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """Return the first record with the greatest timestamp of all."""
        if self.start_offset == self.end_offset:
            return None
        latest = self._open().segments.max_timestamp(start_offset=self.start_offset)
        return None if latest == NO_TIMESTAMP else self.offset_for_time(latest)

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedRange]:
        """Return the aborted transactions with records in [first_offset, end_offset), in order of their markers."""
        return self._open().segments.aborted_transactions(first_offset, end_offset)

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """Return the greatest leader epoch not above the given one, and where it ends; see `LeaderEpochs.end_of`."""
        opened = self._open()
        return opened.epochs.end_of(epoch, opened.end_offset)

    def end_up_to(self, epoch: int) -> int:
        """Return where the leader epochs up to a given one end; a log that is asleep has lost nothing since."""
        state = self._state
        return state.end_offset if isinstance(state, Rest) else state.epochs.end_up_to(epoch, state.end_offset)

    def flush(self) -> Flush | None:
        """Return the work that makes all of the log durable; None if it is, or if a flush is under way.

        Once it has run, tell `flushed`; if it raised, tell `go_offline`.
        """
        state = self._state
        if self.fault or isinstance(state, Rest):
            return None
        index = state.appender.index_of_active() if self._is_checkpoint_due else None
        flush = state.books.flush(self._checkpoint_of(state), state.first_open_offset, index)
        self._is_checkpoint_due = self._is_checkpoint_due and flush is None
        return flush

    def flushed(self, flush: Flush) -> None:
        """Take note that a flush has run; in vain, if the log has failed since.

        A disk tells of a failed sync only once: if something else was told, the flush itself may have seen nothing.
        """
        opened = self._open()
        if self.fault:
            opened.books.flush_was_in_vain(flush)
        else:
            opened.books.flushed(flush, opened.segments.active)
            self.is_unmarked = False

    def checkpoint(self) -> None:
        """Ask for an index file of the segment that takes the appends, so that less must be read after a crash."""
        state = self._state
        if isinstance(state, Rest) or not state.wants_checkpoint:
            return
        if state.books.end == state.end_offset:
            state.books.owe_index(state.appender.index_of_active())
        else:
            self._is_checkpoint_due = True

    def upkeep(self) -> Upkeep | None:
        """Return the work that can wait; None if there is none, or if some is under way. Tell `upkept` how it went."""
        state = self._state
        return None if self.fault or isinstance(state, Rest) else state.books.upkeep(state.segments.first)

    def upkept(self, upkeep: Upkeep, error: OSError | None = None) -> None:
        """Take note that upkeep has run, or that it failed and must be tried again."""
        opened = self._open()
        opened.books.upkept(upkeep, has_failed=error is not None)
        if error is not None:
            self.note_upkeep_failure(error)
            return
        for swap in upkeep.swaps:
            opened.segments.release(swap.segment)
            swap.segment.path = swap.target
        for write in upkeep.index_writes:
            write.segment.covered = write.covered
            if write.segment is not opened.segments.active and write.covered == write.segment.size:
                opened.segments.release(write.segment)

    def _checkpoint_of(self, opened: Opened) -> Checkpoint:
        return Checkpoint.at(self.start_offset, opened.segments.active, self.leader_epoch)

    def delete_before(self, offset: int) -> None:
        """Delete the records before an offset; survives a crash once a `flush` made after this has run."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, start=self.start_offset, end=self.end_offset)
        opened = self._open()
        self._require_online()
        if offset > self.start_offset:
            self.start_offset = offset
            opened.books.owe_start()
            opened.epochs.trim(offset)
        self._drop_before_start(opened)

    def expire(self, now_ms: int, *, end_offset: int | None = None, is_time_due: bool = True) -> None:
        """Remove what the settings say is old: segments up to `end_offset` that are durable, and silent producers.

        Unless `is_time_due`, nothing goes by its age, but what is too much by size does.
        """
        opened = self._open()
        self._require_online()
        if is_time_due:
            self._age(opened, now_ms)
        end = opened.books.end if end_offset is None else min(end_offset, opened.books.end)
        expired = retention.expired(opened.segments, self.settings, now_ms, end_offset=end, is_time_due=is_time_due)
        if expired:
            self.delete_before(max(self.start_offset, expired[-1].next_offset))
        else:
            self._drop_before_start(opened)

    def _age(self, opened: Opened, now_ms: int) -> None:
        opened.producers.expire(now_ms, self.settings.producer_expiration_ms)
        if retention.is_due_to_roll(opened.segments.active, self.settings, now_ms):
            # A full disk must not keep records from expiring.
            with suppress(DiskFull):
                self.roll()

    def _drop_before_start(self, opened: Opened) -> None:
        """Take the segments that lie before the start out of the log; upkeep removes their files."""
        if opened.books.has_swaps or opened.cleaner.is_busy:
            return
        gone = opened.segments.drop_before(min(self.start_offset, opened.books.end))
        if not gone:
            return
        opened.books.owe_removals(gone)
        if opened.segments.first is opened.segments.active:
            self.checkpoint()
        size = sum(segment.size for segment in gone)
        self._sink.emit(SegmentsExpired(str(self.directory), len(gone), size, self.start_offset))

    def compaction(self, now_ms: int, *, end_offset: int | None = None) -> Compaction | None:
        """Return the work of one pass of compaction, if one is due; records from `end_offset` on are not touched.

        None while another pass or its swap is under way. Tell `compacted` or `compaction_failed` what came of it.
        """
        state = self._state
        if self.fault or isinstance(state, Rest):
            return None
        end = state.books.stable if end_offset is None else min(state.books.stable, end_offset)
        return state.cleaner.begin(now_ms, end, state.producers)

    def compacted(self, done: Compaction, replacements: Sequence[Replacement]) -> None:
        """Let compacted segments take the place of the others; upkeep swaps the files."""
        self._open().cleaner.end(done, replacements)
        before = sum(segment.size for segment in done.segments)
        after = sum(each.segment.size for each in replacements)
        self._sink.emit(Compacted(str(self.directory), len(done.segments), len(replacements), before, after))

    def compaction_failed(self, failed: Compaction, error: OSError | GoQueueError) -> None:
        """Take note that a pass has failed, or was given up for the time being (Draining), which is no fault."""
        self._open().cleaner.give_up(failed, error)
        if not isinstance(error, Draining):
            self.note_upkeep_failure(error)

    def note_upkeep_failure(self, error: OSError | GoQueueError) -> None:
        """Report that some work which can wait has failed."""
        self._sink.emit(UpkeepFailed(str(self.directory), str(error)))

    def truncate(self, offset: int) -> None:
        """Remove all batches that reach beyond an offset, at once and durably; blocks, nothing may be under way."""
        self.wake()
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset, start=self.start_offset, end=self.end_offset)
        if offset < self.end_offset:
            self._cut_back(self.start_offset, offset)

    def truncate_to_leader(self, leader: EpochEnd) -> int:
        """Cut back to where this log and its leader's agree, as far as one answer tells; return the new end.

        The answer is the leader's `end_of_epoch` for this log's latest epoch. If the latest epoch after the cut is
        not the leader's, ask again with that one.
        """
        own = self.end_of_epoch(leader.epoch)
        agreed = self.start_offset if own is None else min(own.end_offset, leader.end_offset)
        self.truncate(max(agreed, self.start_offset))
        return self.end_offset

    def reset(self, offset: int) -> None:
        """Empty the log and go on at an offset, at once and durably. Blocks; nothing may be under way."""
        self._cut_back(offset, 0)

    def _cut_back(self, start_offset: int, target: int) -> None:
        opened = self._open()
        self._require_online()
        if opened.books.is_unmade:
            make_durable_directory(self._disk, self.directory)
        if opened.is_busy:
            raise Conflict(f"{self.directory} cannot be cut back while other work is under way", hint="wait for it")
        intent = Checkpoint(start_offset, min(opened.books.end, target), segment_base=-1, truncate_to=target)
        try:
            # The intent is durable before the first byte goes, and recovery carries it out: now, or after a crash.
            # So if anything fails, the log must not go on: what it would append might be cut at the next start.
            self._checkpoint_file.commit(intent._replace(leader_epoch=self.leader_epoch))
            self._let_go(opened)
            state = self._recover()
        except (OSError, GoQueueError) as error:
            raise self._fail("truncation", error) from error
        self._state = self._load(state)
        self._sink.emit(Truncated(str(self.directory), self.end_offset))

    def rest(self) -> None:
        """Close the files of a log that is not being written to; the next append opens them again."""
        state = self._state
        if isinstance(state, Rest):
            return
        if state.books.end == state.end_offset and not state.books.is_busy and not state.books.has_swaps:
            self._let_go(state)

    def go_offline(self, reason: str) -> None:
        """Stop taking appends for good; what was durable can still be read."""
        if not self.fault:
            self.fault = reason
            self._sink.emit(WentOffline(str(self.directory), reason))

    def close(self) -> None:
        """Make everything durable and let go of all files; blocks. Closing twice is harmless."""
        state = self._state
        if isinstance(state, Rest):
            self.fault = self.fault or "it is closed"
            return
        if not self.fault and state.is_busy:
            raise Conflict(f"{self.directory} cannot be closed while other work is under way", hint="wait for it")
        try:
            if not self.fault:
                self._settle(state)
        finally:
            self.fault = self.fault or "it is closed"
            self._let_go(state)

    def _settle(self, opened: Opened) -> None:
        flush = self.flush()
        if flush is not None:
            flush.run()
            self.flushed(flush)
        self.checkpoint()
        while (upkeep := self.upkeep()) is not None:
            try:
                upkeep.run()
            except OSError as error:
                # All records are durable; the next start does what is left.
                self.upkept(upkeep, error)
                return
            self.upkept(upkeep)
        ending = self.ending()
        if ending is not None:
            ending()
        self._is_closed_cleanly = not opened.books.owes

    def ending(self) -> Callable[[], None] | None:
        """Return the write that tells the next start that the log was closed; any thread may do it.

        None if something else is owed first, or if the files say so already. Tell `ended` when it is done; nothing but
        `close` may follow.
        """
        state = self._state
        if self.fault or isinstance(state, Rest) or self._is_closed_cleanly:
            return None
        if state.is_busy or state.books.owes:
            return None
        if self.was_clean and not state.books.is_touched:
            return None
        return partial(self._checkpoint_file.commit, self._checkpoint_of(state)._replace(is_clean=1))

    def ended(self) -> None:
        """Take note that what `ending` returned was done."""
        self._is_closed_cleanly = True

    def _let_go(self, opened: Opened) -> None:
        opened.segments.close_files()
        self._checkpoint_file.close()

    def _require_online(self) -> None:
        if self.fault:
            raise LogOffline(f"{self.directory} takes no writes: {self.fault}")
