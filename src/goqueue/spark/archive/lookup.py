"""Finds the archive of a topic, and the part of it before the log, when a read is planned.

The broker has the setting `goqueue.archive.path` of topics whose logs do not start at 0. The commits of an archive are
read again only if the known ones do not reach the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.client.kafka import Isolation, KafkaData
from goqueue.errors import Conflict
from goqueue.spark.archive.commits import is_archive, load
from goqueue.spark.archive.manifest import ArchivedFile, ArchiveState, TopicArchive
from goqueue.spark.archive.paths import normal_path
from goqueue.spark.archive.rows import ArchivedPartition
from goqueue.spark.archive.spans import OffsetSpan, Spans, missing, within
from goqueue.spark.archive.store import ArchiveStore, ArchiveUnreachable
from goqueue.spark.source.option_values import ArchiveUse, Matching
from goqueue.spark.source.options import ARCHIVE, ReadOptions

PATH_SETTING: Final = "goqueue.archive.path"
PIECE_BYTES: Final = 128 * 1024 * 1024
"""How much of an archive one task reads, if its files can be shared out like that."""


class WrongArchive(Conflict):
    """The archive does not belong to the topic."""

    code = "wrong_archive"


class ArchivedPiece(NamedTuple):
    """A range of archived offsets, `start` to `end` (exclusive), and the files with their rows."""

    start: int
    end: int
    path: str
    files: tuple[ArchivedFile, ...]

    def cut(self, start: int, end: int) -> ArchivedPiece:
        """Return a part of it, with only the files of that part."""
        start, end = max(start, self.start), min(end, self.end)
        return ArchivedPiece(
            start, end, self.path, tuple(file for file in self.files if file.overlaps(OffsetSpan(start, end)))
        )


Pieces = tuple[ArchivedPiece, ...]


class TopicLog(NamedTuple):
    """A topic as the broker has it: where the log of each partition starts."""

    id: UUID
    starts: Mapping[int, int]


class Archives:
    """The archives of the topics of one read, with a cache of their states."""

    def __init__(self, options: ReadOptions, *, piece_bytes: int = PIECE_BYTES) -> None:
        self._options = options
        self._piece_bytes = piece_bytes
        self._stores: dict[str, ArchiveStore] = {}
        self._states: dict[str, ArchiveState] = {}
        self._pieces: dict[tuple[str, str, int], tuple[int, int, Pieces]] = {}

    def before(self, data: KafkaData, logs: Mapping[str, TopicLog]) -> dict[str, dict[int, Pieces]]:
        """Return the archived pieces before the logs of topics, by partition."""
        # # Archives have no aborted records, so uncommitted reads cannot use them.
        if self._options.archive is ArchiveUse.NEVER or self._options.isolation is not Isolation.COMMITTED:
            return {}
        wanted = {name: log for name, log in logs.items() if any(log.starts.values())}
        if not wanted:
            return {}
        found: dict[str, dict[int, Pieces]] = {}
        for name, path in self._paths(data, wanted).items():
            with self._telling(name, path):
                topic = self._topic(name, path, wanted[name])
            if topic is not None:
                state = self._states[path]
                found[name] = {
                    partition: self._cut(state, path, name, topic, partition, log_start)
                    for partition, log_start in wanted[name].starts.items()
                }
        return found

    def first_at(self, topic: str, partition: int, pieces: Pieces, time_ms: int, log_start: int) -> int | None:
        """Return the first archived offset before the log with a record of that time or later."""
        if not pieces:
            return None
        path = pieces[0].path
        files = tuple(dict.fromkeys(file for piece in pieces for file in piece.files))
        with self._telling(topic, path):
            return ArchivedPartition(self._store(path), topic, partition, files).first_at(time_ms, log_start)

    def _paths(self, data: KafkaData, wanted: Mapping[str, TopicLog]) -> Mapping[str, str]:
        if isinstance(self._options.archive, str):
            return dict.fromkeys(wanted, self._options.archive)
        return {name: normal_path(path) for name, path in data.topic_setting(wanted, PATH_SETTING).items()}

    def _topic(self, name: str, path: str, log: TopicLog) -> TopicArchive | None:
        known = self._states.get(path)
        found = known.topics.get(name) if known else None
        if found is None or not _reaches(found, log):
            self._states[path] = self._read(path, known)
            found = self._states[path].topics.get(name)
        if found is None:
            if isinstance(self._options.archive, str) and isinstance(self._options.subscription, Matching):
                return None
            there = ", ".join(sorted(self._states[path].topics))
            raise WrongArchive(f"the archive at {path} does not hold topic {name!r}, but {there}", hint=_NEVER_HINT)
        if found.id != log.id:
            raise WrongArchive(
                f"the archive at {path} belongs to an earlier topic {name!r}, which was deleted", hint=_NEVER_HINT
            )
        return found

    def _read(self, path: str, known: ArchiveState | None) -> ArchiveState:
        store = self._store(path)
        if not is_archive(store):
            raise ArchiveUnreachable(f"there is no archive at {path}")
        return load(store, known)

    def _store(self, path: str) -> ArchiveStore:
        if path not in self._stores:
            self._stores[path] = ArchiveStore(path)
        return self._stores[path]

    def _cut(
        self, state: ArchiveState, path: str, name: str, topic: TopicArchive, partition: int, log_start: int
    ) -> Pieces:
        """Return the archived pieces of a partition before its log; cached until the archive or the log changes."""
        key = (path, name, partition)
        number, start, pieces = self._pieces.get(key, (-1, -1, ()))
        if (number, start) != (state.number, log_start):
            spans = within(topic.covered.get(partition, ()), OffsetSpan(0, log_start))
            files = [file for file in topic.files if file.partition == partition and file.first < log_start]
            pieces = cut_at_files(path, spans, files, self._piece_bytes)
            self._pieces[key] = (state.number, log_start, pieces)
        return pieces

    @contextmanager
    def _telling(self, topic: str, path: str) -> Iterator[None]:
        """Add to an unreachable archive which setting names it, and how to read without it."""
        try:
            yield
        except ArchiveUnreachable as error:
            by = f"the option {ARCHIVE}" if isinstance(self._options.archive, str) else f"its setting {PATH_SETTING}"
            raise ArchiveUnreachable(
                f"cannot read records of topic {topic!r} from the archive that {by} names: {error.message}",
                hint=f"make sure that this machine and every executor can read {path}; {_NEVER_HINT}",
            ) from error


_NEVER_HINT: Final = f"set the option {ARCHIVE}=never to read only the log, or {ARCHIVE}=PATH to read another archive"


def cut_at_files(path: str, spans: Spans, files: Sequence[ArchivedFile], piece_bytes: int) -> Pieces:
    """Cut archived offsets at starts of files, into pieces of about `piece_bytes`; files are in order."""
    pieces: list[ArchivedPiece] = []
    active: list[ArchivedFile] = []
    upcoming = iter([*files])
    following = next(upcoming, None)
    for start, end in _cuts(spans, files, piece_bytes):
        while following is not None and following.first < end:
            active.append(following)
            following = next(upcoming, None)
        active = [file for file in active if file.last >= start]
        pieces.append(ArchivedPiece(start, end, path, tuple(active)))
    return tuple(pieces)


def _cuts(spans: Spans, files: Sequence[ArchivedFile], piece_bytes: int) -> Iterator[OffsetSpan]:
    sizes = iter([(file.first, file.bytes) for file in files])
    first, size = next(sizes, (None, 0))
    for span in spans:
        start, taken = span.start, 0
        while first is not None and first < span.end:
            if taken and taken + size > piece_bytes and first > start:
                yield OffsetSpan(start, first)
                start, taken = first, 0
            taken += size
            first, size = next(sizes, (None, 0))
        yield OffsetSpan(start, span.end)


def _reaches(topic: TopicArchive, log: TopicLog) -> bool:
    """Return whether the archive reaches up to the log in each partition."""
    for partition, log_start in log.starts.items():
        covered = topic.covered.get(partition, ())
        if log_start and (not covered or missing(covered, OffsetSpan(covered[0].start, log_start))):
            return False
    return True
