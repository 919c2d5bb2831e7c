"""The segments of one log in order, and how to read across them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from goqueue.errors import Corrupt, CorruptLog, Unavailable, UnsupportedFormat
from goqueue.log import names, reader
from goqueue.log.events import DamageFound, IndexRebuilt
from goqueue.log.file_cache import FileCache
from goqueue.log.reader import TimedOffset
from goqueue.log.rebuild import find_damages, read_or_rebuild
from goqueue.log.segment import NO_TIMESTAMP, Details, Segment
from goqueue.machines.producer import AbortedRange
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import Disk
from goqueue.seams.sink import Sink


class Segments:
    """A log's segments, never empty; the last one is being written to, the others are sealed."""

    def __init__(
        self, segments: Sequence[Segment], disk: Disk, file_cache: FileCache, settings: LogSettings, sink: Sink
    ) -> None:
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in segments]
        self._disk = disk
        self._file_cache = file_cache
        self.settings = settings
        self._sink = sink

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def active(self) -> Segment:
        """The segment that takes the appends."""
        return self._segments[-1]

    @property
    def sealed(self) -> Sequence[Segment]:
        """All the others."""
        return self._segments[:-1]

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Seal the last segment and let appends go to another."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def drop_before(self, offset: int) -> list[Segment]:
        """Take out the sealed segments that hold nothing from an offset on."""
        count = 0
        while count < len(self._segments) - 1 and self._segments[count].next_offset <= offset:
            count += 1
        gone = self._segments[:count]
        self.replace(gone, [])
        return gone

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put segments in the place of others, which must follow each other."""
        if not old:
            return
        first = self._segments.index(old[0])
        self._segments[first : first + len(old)] = new
        self._bases = [segment.base_offset for segment in self._segments]
        for segment in old:
            self.release(segment)

    def release(self, segment: Segment) -> None:
        """Release a sealed segment's details and file; both can be loaded again."""
        segment.details = None
        self._close_file(segment)

    def close_files(self) -> None:
        """Close all files of the log."""
        for segment in self._segments:
            self._close_file(segment)

    def _close_file(self, segment: Segment) -> None:
        self._file_cache.forget(segment.path)
        if segment.file is not None:
            segment.file.close()
            segment.file = None

    def read(self, offset: int, *, bytes_max: int, end_offset: int) -> bytes:
        """Return whole batches from the one that holds an offset on, none that reaches beyond `end_offset`."""
        number = bisect_right(self._bases, offset) - 1
        while number < len(self._segments) and self._bases[number] < end_offset:
            segment = self._segments[number]
            try:
                data = self._read_from(number, max(offset, segment.base_offset), bytes_max, end_offset)
                if data:
                    return data
            except OSError as error:
                raise Unavailable(f"{segment.path} cannot be read at offset {offset}: {error}") from error
            number += 1
        return b""

    def _read_from(self, number: int, offset: int, bytes_max: int, end_offset: int) -> bytes:
        """Read from one segment; if the way there is damaged, look all of it over and go around the damage."""
        segment = self._segments[number]
        index = self.details(number).index
        file = self._file_cache.file(segment)
        try:
            return reader.read(segment, index, file, offset, bytes_max=bytes_max, end_offset=end_offset)
        except CorruptLog:
            raise
        except (Corrupt, UnsupportedFormat):
            self._inspect(number)
        return reader.read(segment, index, file, offset, bytes_max=bytes_max, end_offset=end_offset)

    def _inspect(self, number: int) -> None:
        """Find all damage of a segment that was taken to be good."""
        segment = self._segments[number]
        known = set(segment.damages)
        segment.damages = find_damages(self._disk, segment, self.settings)
        for damage in segment.damages:
            if damage not in known:
                self._sink.emit(
                    DamageFound(
                        str(segment.path.parent),
                        str(segment.path),
                        damage.position,
                        damage.first_offset,
                        damage.end_offset,
                        "met by a reader",
                    )
                )

    def bytes_from(self, offset: int) -> int:
        """Return about how many bytes follow an offset: at most one interval of the index too many."""
        number = max(0, bisect_right(self._bases, offset) - 1)
        start = self.details(number).index.position_of_offset(offset)
        return sum(segment.size for segment in self._segments[number:]) - start

    def has_damage_from(self, offset: int) -> bool:
        """Return whether records from an offset on are known to be damaged or missing."""
        return any(segment.damage_from(offset) is not None for segment in self._segments)

    def first_at_time(self, timestamp: int, *, start_offset: int) -> TimedOffset | None:
        """Return the first record from `start_offset` on with a timestamp at or after the given one."""
        for number, segment in enumerate(self._segments):
            if segment.max_timestamp < timestamp or segment.next_offset <= start_offset:
                continue
            try:
                found = self._first_at_time(number, timestamp, start_offset)
            except OSError as error:
                raise Unavailable(f"{segment.path} cannot be read: {error}") from error
            if found is not None:
                return found
        return None

    def _first_at_time(self, number: int, timestamp: int, start_offset: int) -> TimedOffset | None:
        segment = self._segments[number]
        index = self.details(number).index
        file = self._file_cache.file(segment)
        try:
            return reader.first_at_time(segment, index, file, timestamp, start_offset=start_offset)
        except (Corrupt, UnsupportedFormat):
            self._inspect(number)
        return reader.first_at_time(segment, index, file, timestamp, start_offset=start_offset)

    def max_timestamp(self, *, start_offset: int) -> int:
        """Return the greatest timestamp of all records from an offset on, or NO_TIMESTAMP."""
        latest = NO_TIMESTAMP
        for segment in self._segments:
            if segment.base_offset >= start_offset:
                latest = max(latest, segment.max_timestamp)
            elif segment.next_offset > start_offset:
                try:
                    file = self._file_cache.file(segment)
                    latest = max(latest, reader.max_timestamp(segment, file, start_offset=start_offset))
                except OSError as error:
                    raise Unavailable(f"{segment.path} cannot be read: {error}") from error
        return latest

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedRange]:
        """Return the aborted transactions with records in [first_offset, end_offset), in order of their markers.

        Looks beyond the end only while a transaction is open that began before it.
        """
        found = []
        for number in range(max(0, bisect_right(self._bases, first_offset) - 1), len(self._segments)):
            details = self.details(number)
            aborted = details.aborted
            for at in range(bisect_left(aborted, first_offset, key=lambda each: each.last_offset), len(aborted)):
                entry = aborted[at]
                if entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
            if details.stable_offset >= end_offset:
                return found
        return found

    def end_of_read(self, base_offset: int, size: int) -> int:
        """Return where a read of `size` bytes from the batch at an offset ends, or a little later.

        It is at most two intervals of the index too far; the bytes in between are not read.
        """
        number = max(0, bisect_right(self._bases, base_offset) - 1)
        beyond = self.details(number).index.offset_beyond(base_offset, size)
        return self._segments[number].next_offset if beyond is None else beyond

    def details(self, number: int) -> Details:
        """Return a segment's details, made again from its batches if its index file went bad."""
        segment = self._segments[number]
        try:
            return self._file_cache.details(segment)
        except (Corrupt, FileNotFoundError) as error:
            fault = str(error)
        except OSError as error:
            raise Unavailable(f"{names.index_path(segment.path)} cannot be read: {error}") from error
        try:
            # The index file stays as it is until the next start, when recovery replaces it.
            segment.details = read_or_rebuild(self._disk, self._segments, number, self.settings).details
        except OSError as error:
            raise Unavailable(f"{segment.path} cannot be read: {error}") from error
        self._sink.emit(IndexRebuilt(str(segment.path.parent), str(names.index_path(segment.path)), fault))
        return segment.details
