"""Open files and loaded indexes of sealed segments, bounded in number and shared by all logs of a process.

Segments that are being written keep their own file; the rest come and go here, least recently used first. Owned
by the event loop's thread: nothing here may be called from another one.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import PurePath

from goqueue.log import sidecar
from goqueue.log.segment import Details, Segment
from goqueue.seams.disk import Disk, File


class FileCache:
    """A bounded cache of files open for reading and of index bodies."""

    def __init__(self, disk: Disk, *, files_max: int = 256, details_max: int = 64) -> None:
        self._disk = disk
        self._files_max = files_max
        self._details_max = details_max
        self._files: OrderedDict[PurePath, File] = OrderedDict()
        self._details: OrderedDict[PurePath, Details] = OrderedDict()

    def file(self, segment: Segment) -> File:
        """Return a file to read the segment from; valid until the next call."""
        if segment.file is not None:
            return segment.file
        file = self._files.get(segment.path)
        if file is not None:
            self._files.move_to_end(segment.path)
            return file
        file = self._files[segment.path] = self._disk.open(segment.path, writable=False)
        if len(self._files) > self._files_max:
            self._files.popitem(last=False)[1].close()
        return file

    def details(self, segment: Segment) -> Details:
        """Return the segment's index and aborted transactions; Corrupt if the index file went bad."""
        if segment.details is not None:
            return segment.details
        details = self._details.get(segment.path)
        if details is not None:
            self._details.move_to_end(segment.path)
            return details
        details = self._details[segment.path] = sidecar.read_body(self._disk, segment.path).details
        if len(self._details) > self._details_max:
            self._details.popitem(last=False)
        return details

    def forget(self, path: PurePath) -> None:
        """Drop the file and the details of a segment that leaves the log."""
        self._details.pop(path, None)
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files."""
        for path in list(self._files):
            self.forget(path)
