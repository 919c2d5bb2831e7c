"""Opens the files of one log: runs recovery, and compares what it finds with the state in which the log was closed."""

from __future__ import annotations

from pathlib import PurePath

from goqueue.errors import DiskFull, LogOffline
from goqueue.log import names
from goqueue.log.checkpoint import CheckpointFile
from goqueue.log.closed_state import NEVER_WRITTEN, ClosedState, changed
from goqueue.log.file_cache import FileCache
from goqueue.log.open_state import OpenState
from goqueue.log.recovery import LogState, recover
from goqueue.log.segment import Segment
from goqueue.machines.producer import ProducerTable
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import NO_ROOM, Disk, make_durable_directory
from goqueue.seams.sink import Sink


class LogOpener:
    """Opens the log in one directory."""

    def __init__(
        self, disk: Disk, directory: PurePath, sink: Sink, file_cache: FileCache, checkpoint_file: CheckpointFile
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._sink = sink
        self._file_cache = file_cache
        self._checkpoint_file = checkpoint_file

    def recover(self, settings: LogSettings) -> LogState:
        """Return what recovery finds in the directory, which is created if it is absent.

        Raises DiskFull, LogOffline or Corrupt.
        """
        try:
            if self._checkpoint_file.load() is None:
                # A new log gets its checkpoint last. Without one, its directory may not be durable yet.
                make_durable_directory(self._disk, self._directory)
            return recover(self._disk, self._directory, settings, self._sink, self._checkpoint_file)
        except OSError as error:
            self._checkpoint_file.close()
            kind = DiskFull if error.errno in NO_ROOM else LogOffline
            raise kind(f"{self._directory} cannot be opened: {error}") from error

    def reopen(self, closed: ClosedState, settings: LogSettings) -> LogState:
        """Return what the files of a closed log hold; CorruptLog if they hold less than when it was closed."""
        if closed is NEVER_WRITTEN:
            return _empty(self._directory)
        if not self._disk.exists(self._directory):
            raise changed(self._directory, closed, "its directory is missing")
        state = self.recover(settings)
        found = (state.start_offset, state.segments[-1].next_offset)
        if found[0] < closed.start_offset or found[1] < closed.end_offset:
            raise changed(self._directory, closed, f"it holds offsets {found[0]} to {found[1]}")
        return state

    def build(self, state: LogState, settings: LogSettings) -> OpenState:
        """Return the parts of a log in which recovery has found this."""
        return OpenState.of(state, self._disk, self._checkpoint_file, self._file_cache, settings, self._sink)


def _empty(directory: PurePath) -> LogState:
    """Return the state of a log that has no files yet."""
    producers = ProducerTable()
    segment = Segment.fresh(names.segment_path(directory, 0), 0, producers.encode())
    epoch = NEVER_WRITTEN.leader_epoch
    return LogState([segment], producers, 0, [], is_clean=True, is_read_only=False, leader_epoch=epoch)
