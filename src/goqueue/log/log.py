"""One log: batches in, batches out, nothing lost.

A log is owned by one thread, which calls everything here; only the values that `flush`, `upkeep` and compaction hand
out may run elsewhere. Offsets are contiguous, in order and never given twice. The three ends of a log:

    start_offset  <=  durable_end  <=  end_offset
    |                 |                |
    first record      what a power     the next record's offset
    still held        loss cannot take

A log has one of two states. Until it is opened it has a `ClosedState`: a few numbers that the last clean stop stored.
The first use of anything else opens the files, and from then on the log has an `OpenState`. A method that needs an
open log begins with `_open`, before it reads anything else: opening may find another start, end or leader epoch. A log
that was never written to has no files; the first append creates them, and the first flush makes their names durable.
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
from goqueue.log.closed_state import NEVER_MS, NEVER_WRITTEN, ClosedState, difference
from goqueue.log.compaction import Compaction, Replacement
from goqueue.log.epochs import EpochEnd, LeaderEpochs
from goqueue.log.events import Compacted, OpenFailed, SegmentsExpired, Truncated, UpkeepFailed, WentOffline
from goqueue.log.file_cache import FileCache
from goqueue.log.flush import Flush, Upkeep
from goqueue.log.open_state import OpenState
from goqueue.log.opening import LogOpener
from goqueue.log.reader import TimedOffset
from goqueue.log.recovery import LogState
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
        file_cache: FileCache | None = None,
        *,
        closed_state: ClosedState | None = None,
    ) -> None:
        """Open the log, and create it if the directory is absent; `recovery` lists what that may find.

        With a `closed_state` the log is opened when it is needed; the caller guarantees that the state fits the files.
        """
        self.directory = directory
        self.settings = settings
        self._disk = disk
        self._sink = sink or NullSink()
        self._checkpoint_file = CheckpointFile(disk, directory / names.CHECKPOINT)
        self._opener = LogOpener(disk, directory, self._sink, file_cache or FileCache(disk), self._checkpoint_file)
        self._is_closed_cleanly = False
        self._is_checkpoint_due = False
        self.fault = ""
        """Why the log takes no appends; empty if it does."""
        self.was_clean = self.is_unmarked = True
        self.on_open: Callable[[], None] | None = None
        self.open_error: GoQueueError | None = None
        """Why the log cannot be opened; every later use raises it again, until the broker is restarted."""
        self._open_failure = ""
        self._state: ClosedState | OpenState
        if closed_state is None:
            self._state = self._load(self._opener.recover(settings))
        else:
            self._state = closed_state
            self.start_offset = closed_state.start_offset
            self.leader_epoch = closed_state.leader_epoch

    @property
    def is_unopened(self) -> bool:
        """Whether only the `ClosedState` of the log is known; opening it blocks for a few reads."""
        return isinstance(self._state, ClosedState)

    @property
    def segments(self) -> Segments:
        """The segments of the log, which is opened if it is not open yet."""
        return self._open().segments

    @property
    def producers(self) -> ProducerTable:
        """What is known of its producers; the log is opened if it is not open yet."""
        return self._open().producers

    @property
    def epochs(self) -> LeaderEpochs:
        """Where its leader epochs start; the log is opened if it is not open yet."""
        return self._open().epochs

    @property
    def obstacle(self) -> str:
        """Why the log takes no appends, or why the last attempt to open it failed; empty if nothing is wrong."""
        return self.fault or self._open_failure

    def ensure_open(self) -> None:
        """Open the log if it is not open; CorruptLog if its files have changed since it was closed, LogOffline."""
        self._open()

    def _open(self) -> OpenState:
        state = self._state
        return self._open_files(state) if isinstance(state, ClosedState) else state

    def _open_files(self, closed: ClosedState) -> OpenState:
        if self.open_error is not None:
            raise self.open_error.without_frames()
        if self.fault:
            # It is closed, or its topic is being deleted: its files must not be touched any more.
            raise LogOffline(f"{self.directory} is not open: {self.fault}")
        try:
            state = self._opener.reopen(closed, self.settings)
        except Unavailable as error:
            # The disk may answer the next time, so the next use tries again.
            if error.message != self._open_failure:
                self._open_failure = error.message
                self._sink.emit(OpenFailed(str(self.directory), error.message))
            raise
        except GoQueueError as error:
            self.open_error = error
            self.go_offline(f"it cannot be opened: {error}")
            raise
        self._open_failure = ""
        opened = self._state = self._load(state)
        opened.durability.is_unmade = closed is NEVER_WRITTEN
        if self.on_open is not None:
            self.on_open()
        return opened

    def closed_state_check(self) -> Callable[[], str] | None:
        """Return a check of the files of a closed log, which any thread may run; None if there is nothing to check.

        It returns how the files differ from the closed state; if they do, call `ensure_open`.
        """
        state = self._state
        if not isinstance(state, ClosedState) or state is NEVER_WRITTEN or self.fault:
            return None
        return partial(difference, self._disk, self.directory, state)

    def closed_state(self) -> ClosedState | None:
        """Return what lets the next start leave this closed log unopened; None if it must open it."""
        state = self._state
        if isinstance(state, ClosedState):
            return None if state is NEVER_WRITTEN or self.open_error is not None else state
        if not self._is_closed_cleanly or state.durability.is_unmade or state.first_open_offset is not None:
            return None
        return ClosedState.of(self.start_offset, self.leader_epoch, state.segments)

    def due_ms(self) -> int:
        """Return the wall-clock moment at which time alone gives upkeep something to do; 0 if it may be now."""
        if self.fault:
            return NEVER_MS
        state = self._state
        if not isinstance(state, ClosedState):
            state = ClosedState.of(self.start_offset, self.leader_epoch, state.segments)
        return state.due_ms(self.settings)

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

    def _load(self, state: LogState) -> OpenState:
        opened = self._opener.build(state, self.settings)
        self.leader_epoch = max(state.leader_epoch, opened.epochs.latest, 0)
        self.start_offset = state.start_offset
        self.fault = "the disk is read-only" if state.is_read_only else ""
        self._is_checkpoint_due = False
        # Until something new is durable, the next start cannot know that records were appended and lost. Records must
        # not be readable before that: else other records could get their offsets in the same epoch.
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
        # Its first records may be deleted by now; the rest of it must stay hidden.
        return self._state.end_offset if first is None else max(first, self.start_offset)

    @property
    def wants_flush(self) -> bool:
        """Whether a flush is needed that is not yet under way."""
        return self._state.wants_flush

    def configure(self, settings: LogSettings) -> None:
        """Use other settings from now on; data that was written before stays unchanged."""
        self.settings = settings
        if not isinstance(self._state, ClosedState):
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

    def _write(self, opened: OpenState, headers: Sequence[BatchHeader], batches: Sequence[NewBatch]) -> None:
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
        """Return where the leader epochs up to a given one end; a closed log has lost nothing since."""
        state = self._state
        return state.end_offset if isinstance(state, ClosedState) else state.epochs.end_up_to(epoch, state.end_offset)

    def flush(self) -> Flush | None:
        """Return the work that makes all of the log durable; None if it is, or if a flush is under way.

        Once it has run, call `flushed`; if it raised, call `go_offline`.
        """
        state = self._state
        if self.fault or isinstance(state, ClosedState):
            return None
        index = state.appender.index_of_active() if self._is_checkpoint_due else None
        flush = state.durability.flush(self._checkpoint_of(state), state.first_open_offset, index)
        self._is_checkpoint_due = self._is_checkpoint_due and flush is None
        return flush

    def flushed(self, flush: Flush) -> None:
        """Record that a flush has run; if the log has failed since, it made nothing durable.

        A disk reports a failed sync only once: if another sync got the error, the flush may have seen none.
        """
        opened = self._open()
        if self.fault:
            opened.durability.flush_was_in_vain(flush)
        else:
            opened.durability.flushed(flush, opened.segments.active)
            self.is_unmarked = False

    def checkpoint(self) -> None:
        """Request an index file of the active segment, so that less must be read after a crash."""
        state = self._state
        if isinstance(state, ClosedState) or not state.wants_checkpoint:
            return
        if state.durability.end == state.end_offset:
            state.durability.owe_index(state.appender.index_of_active())
        else:
            self._is_checkpoint_due = True

    def upkeep(self) -> Upkeep | None:
        """Return background work; None if there is none, or if some is under way. Report the outcome to `upkept`."""
        state = self._state
        return None if self.fault or isinstance(state, ClosedState) else state.durability.upkeep(state.segments.first)

    def upkept(self, upkeep: Upkeep, error: OSError | None = None) -> None:
        """Record that upkeep has run, or that it failed and must be tried again."""
        opened = self._open()
        opened.durability.upkept(upkeep, has_failed=error is not None)
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

    def _checkpoint_of(self, opened: OpenState) -> Checkpoint:
        return Checkpoint.at(self.start_offset, opened.segments.active, self.leader_epoch)

    def delete_before(self, offset: int) -> None:
        """Delete the records before an offset; survives a crash once a `flush` made after this has run."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, start=self.start_offset, end=self.end_offset)
        opened = self._open()
        self._require_online()
        if offset > self.start_offset:
            self.start_offset = offset
            opened.durability.owe_start()
            opened.epochs.trim(offset)
        self._drop_before_start(opened)

    def expire(self, now_ms: int, *, end_offset: int | None = None, is_time_due: bool = True) -> None:
        """Remove expired durable segments up to `end_offset`, and idle producers.

        Unless `is_time_due`, segments expire by size only.
        """
        opened = self._open()
        self._require_online()
        if is_time_due:
            self._age(opened, now_ms)
        end = opened.durability.end if end_offset is None else min(end_offset, opened.durability.end)
        expired = retention.expired(opened.segments, self.settings, now_ms, end_offset=end, is_time_due=is_time_due)
        if expired:
            self.delete_before(max(self.start_offset, expired[-1].next_offset))
        else:
            self._drop_before_start(opened)

    def _age(self, opened: OpenState, now_ms: int) -> None:
        opened.producers.expire(now_ms, self.settings.producer_expiration_ms)
        if retention.is_due_to_roll(opened.segments.active, self.settings, now_ms):
            # A full disk must not keep records from expiring.
            with suppress(DiskFull):
                self.roll()

    def _drop_before_start(self, opened: OpenState) -> None:
        """Take the segments that lie before the start out of the log; upkeep removes their files."""
        if opened.durability.has_swaps or opened.compactor.is_busy:
            return
        gone = opened.segments.drop_before(min(self.start_offset, opened.durability.end))
        if not gone:
            return
        opened.durability.owe_removals(gone)
        if opened.segments.first is opened.segments.active:
            self.checkpoint()
        size = sum(segment.size for segment in gone)
        self._sink.emit(SegmentsExpired(str(self.directory), len(gone), size, self.start_offset))

    def compaction(self, now_ms: int, *, end_offset: int | None = None) -> Compaction | None:
        """Return the work of one pass of compaction, if one is due; records from `end_offset` on are not touched.

        None while another pass or its swap is under way. Report the outcome to `compacted` or `compaction_failed`.
        """
        state = self._state
        if self.fault or isinstance(state, ClosedState):
            return None
        end = state.durability.stable if end_offset is None else min(state.durability.stable, end_offset)
        return state.compactor.begin(now_ms, end, state.producers)

    def compacted(self, done: Compaction, replacements: Sequence[Replacement]) -> None:
        """Let compacted segments take the place of the others; upkeep swaps the files."""
        self._open().compactor.end(done, replacements)
        before = sum(segment.size for segment in done.segments)
        after = sum(each.segment.size for each in replacements)
        self._sink.emit(Compacted(str(self.directory), len(done.segments), len(replacements), before, after))

    def compaction_failed(self, failed: Compaction, error: OSError | GoQueueError) -> None:
        """Record that a pass has failed, or was interrupted (Draining), which is no fault."""
        self._open().compactor.give_up(failed, error)
        if not isinstance(error, Draining):
            self.note_upkeep_failure(error)

    def note_upkeep_failure(self, error: OSError | GoQueueError) -> None:
        """Report that background work has failed."""
        self._sink.emit(UpkeepFailed(str(self.directory), str(error)))

    def truncate(self, offset: int) -> None:
        """Remove all batches that reach beyond an offset, at once and durably; blocks, nothing may be under way."""
        self.ensure_open()
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset, start=self.start_offset, end=self.end_offset)
        if offset < self.end_offset:
            self._cut_back(self.start_offset, offset)

    def truncate_to_leader(self, leader: EpochEnd) -> int:
        """Cut back to where this log and its leader's agree, as far as one answer shows; return the new end.

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
        if opened.durability.is_unmade:
            make_durable_directory(self._disk, self.directory)
        if opened.is_busy:
            raise Conflict(f"{self.directory} cannot be cut back while other work is under way", hint="wait for it")
        intent = Checkpoint(start_offset, min(opened.durability.end, target), segment_base=-1, truncate_to=target)
        try:
            # The intent is durable before the first byte goes, and recovery carries it out: now, or after a crash.
            # So if anything fails, the log must not go on: what it would append might be cut at the next start.
            self._checkpoint_file.commit(intent._replace(leader_epoch=self.leader_epoch))
            self._let_go(opened)
            state = self._opener.recover(self.settings)
        except (OSError, GoQueueError) as error:
            raise self._fail("truncation", error) from error
        self._state = self._load(state)
        self._sink.emit(Truncated(str(self.directory), self.end_offset))

    def release_files(self) -> None:
        """Close the files of a log that is not being written to; the next append opens them again."""
        state = self._state
        if isinstance(state, ClosedState):
            return
        if state.durability.end == state.end_offset and not state.durability.is_busy and not state.durability.has_swaps:
            self._let_go(state)

    def go_offline(self, reason: str) -> None:
        """Take no more appends; durable records can still be read."""
        if not self.fault:
            self.fault = reason
            self._sink.emit(WentOffline(str(self.directory), reason))

    def close(self) -> None:
        """Make everything durable and close all files; blocks. Closing twice is harmless."""
        state = self._state
        if isinstance(state, ClosedState):
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

    def _settle(self, opened: OpenState) -> None:
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
        self._is_closed_cleanly = not opened.durability.owes

    def ending(self) -> Callable[[], None] | None:
        """Return the write that marks the log as cleanly closed; any thread may run it.

        None if other work is owed first, or if the files are marked already. Call `ended` when it is done; only `close`
        may follow.
        """
        state = self._state
        if self.fault or isinstance(state, ClosedState) or self._is_closed_cleanly:
            return None
        if state.is_busy or state.durability.owes:
            return None
        if self.was_clean and not state.durability.is_touched:
            return None
        return partial(self._checkpoint_file.commit, self._checkpoint_of(state)._replace(is_clean=1))

    def ended(self) -> None:
        """Record that the write of `ending` was done."""
        self._is_closed_cleanly = True

    def _let_go(self, opened: OpenState) -> None:
        opened.segments.close_files()
        self._checkpoint_file.close()

    def _require_online(self) -> None:
        if self.fault:
            raise LogOffline(f"{self.directory} takes no writes: {self.fault}")
