"""The contents of an archive: a log of commits and the state that results from them. Pure.

An archive is a directory. Only files that a commit names belong to it; others were left by failed jobs, or wait for
their deletion.

    topic=orders/date=2026-11-16/0-00000000000000000007-00000000000000004711-<32 hex digits>.parquet
    _goqueue/commits/00000000000000000007.json

The name of a file: partition, the number of the next commit when it was written, first offset, random digits. If a
commit of the topic has that number or a greater one, and no commit names the file, no later commit will. A commit is
one JSON object, and its number is that of its file:

    {"version": 1, "number": 7, "at_ms": 1794821222000, "topic": "orders", "topic_id": "6b1f...",
     "begins": {"1": 0},                        start of a partition at its first run
     "covered": {"0": [[4711, 9000]]},          newly archived offsets, start and end (exclusive)
     "gaps": {"0": [[4000, 4711]]},             offsets removed before they were archived
     "added": [{"path": "topic=orders/...", "partition": 0, "date": "2026-11-16", "first": 4711, "last": 8999,
                "rows": 4289, "bytes": 123456, "sha256": "...", "footer_bytes": 3456, "footer_sha256": "...",
                "first_ms": 1794821200000, "last_ms": 1794821221000}],
     "removed": ["topic=orders/..."],           files whose rows are in added ones
     "snapshot": null,
     "sha256": "..."}

The last field is the checksum of all bytes before it, up to the comma, since one wrong digit of an offset would lose
rows. `footer_sha256` is the checksum of the file's last bytes, which have the positions and checksums of its rows.
`begins` separates offsets removed after the first run from offsets that never existed.

`first_ms` and `last_ms` are the least and the greatest timestamp, null if no record has one. A date of null is that of
records without a timestamp. Covered offsets without a row are those of markers of transactions, of what was aborted or
compacted. A `snapshot` is the whole state after the commit, an `ArchiveState`, so that reads can skip the commits
before it. Rows of one partition and date are in order, within a file and from file to file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

import msgspec

from goqueue.errors import Conflict, Corrupt, NotFound
from goqueue.spark.archive.spans import OffsetSpan, Spans, missing, overlap, union

VERSION: Final = 1
COMMITS: Final = "_goqueue/commits"
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of rows without a date, which other readers of Parquet take for null."""

_NUMBER_DIGITS: Final = 20
_END: Final = b"\n}"
_CHECKSUM: Final = b',\n "sha256": "'
_CHECKSUM_END: Final = b'"\n}\n'
_RESTORE: Final = "restore it from a copy of the archive"


class ArchiveDamaged(Corrupt):
    """A file of an archive is missing or damaged, or a commit cannot be read."""

    code = "archive_damaged"


class ArchiveConflict(Conflict):
    """Another job has changed the same part of the archive."""

    code = "archive_conflict"


class NotArchived(NotFound):
    """The archive does not have the requested topic or path."""

    code = "not_archived"


def not_archived(path: str, what: str, held: Iterable[str]) -> NotArchived:
    """Return the error for a missing part of an archive; `held` are the topics or paths that it has."""
    return NotArchived(f"the archive at {path} does not hold {what}, but {', '.join(sorted(held)) or 'nothing'}")


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Parquet file of an archive; its path begins at the archive's directory."""

    path: str
    partition: int
    date: str | None
    first: int
    last: int
    rows: int
    bytes: int
    sha256: str
    footer_bytes: int
    footer_sha256: str
    first_ms: int | None = None
    last_ms: int | None = None

    def overlaps(self, span: OffsetSpan) -> bool:
        """Return whether some of its rows may lie in a span."""
        return self.first < span.end and span.start <= self.last


class TopicArchive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The archived part of one topic."""

    id: UUID
    last_commit: int
    """The number of the last commit about this topic."""
    begins: dict[int, int] = {}
    """Where the log of each partition started when it was archived for the first time."""
    covered: dict[int, Spans] = {}
    gaps: dict[int, Spans] = {}
    files: tuple[ArchivedFile, ...] = ()
    """In the order of partition and first offset."""
    removed: dict[str, int] = {}
    """Files that were replaced, and when."""

    def end(self, partition: int) -> int:
        """Return the offset with which the next run begins; a partition that came later begins with its first."""
        ends = (spans[-1].end for each in (self.covered, self.gaps) if (spans := each.get(partition)))
        return max(self.begins.get(partition, 0), *ends, 0)

    def files_of(self, partition: int, span: OffsetSpan) -> tuple[ArchivedFile, ...]:
        """Return the files in which rows of a span may be."""
        return tuple(file for file in self.files if file.partition == partition and file.overlaps(span))


class ArchiveState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of an archive after a commit."""

    number: int = -1
    """The number of that commit."""
    topics: dict[str, TopicArchive] = {}


class Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of an archive, about one topic."""

    version: int = VERSION
    number: int
    at_ms: int
    topic: str
    topic_id: UUID
    begins: dict[int, int] = {}
    covered: dict[int, Spans] = {}
    gaps: dict[int, Spans] = {}
    added: tuple[ArchivedFile, ...] = ()
    removed: tuple[str, ...] = ()
    snapshot: ArchiveState | None = None


def commit_name(number: int) -> str:
    """Return the path of a commit, in the archive's directory."""
    return f"{COMMITS}/{number:0{_NUMBER_DIGITS}}.json"


def commit_number(file_name: str) -> int | None:
    """Return the number of a commit from the name of its file; None if it is no commit."""
    stem, dot, suffix = file_name.partition(".")
    is_commit = suffix == "json" and len(stem) == _NUMBER_DIGITS and stem.isdecimal() and bool(dot)
    return int(stem) if is_commit else None


def encode_commit(commit: Commit) -> bytes:
    """Return a commit as it is stored."""
    fields = msgspec.json.format(msgspec.json.encode(commit), indent=1).removesuffix(_END)
    return fields + _CHECKSUM + _checksum(fields) + _CHECKSUM_END


def decode_commit(raw: bytes, number: int) -> Commit:
    """Decode a stored commit; ArchiveDamaged if it is damaged or has another number."""
    name = commit_name(number)
    try:
        version = msgspec.json.decode(raw, type=_Versioned).version
        if version != VERSION:
            raise ArchiveDamaged(
                f"{name} is of version {version}, and this release knows {VERSION}", hint="use a newer release"
            )
        fields, _, checksum = raw.rpartition(_CHECKSUM)
        if checksum != _checksum(fields) + _CHECKSUM_END:
            raise ArchiveDamaged(f"{name} is damaged: its checksum does not match", hint=_RESTORE)
        commit = msgspec.json.decode(fields + _END, type=Commit)
    except msgspec.DecodeError as error:
        raise ArchiveDamaged(f"{name} cannot be read: {error}", hint=_RESTORE) from None
    if commit.number != number or (commit.snapshot is not None and commit.snapshot.number != number):
        raise ArchiveDamaged(
            f"{name} has the number {commit.number} inside", hint="files there were renamed: restore their names"
        )
    return commit


def _checksum(fields: bytes) -> bytes:
    return hashlib.sha256(fields).hexdigest().encode()


class _Versioned(msgspec.Struct):
    version: int


def fold(state: ArchiveState, commits: Iterable[Commit]) -> ArchiveState:
    """Apply commits to a state."""
    for commit in commits:
        state = commit.snapshot or apply(state, commit)
    return state


def apply(state: ArchiveState, commit: Commit) -> ArchiveState:
    """Apply a commit to a state; ArchiveConflict if they contradict each other."""
    before = state.topics.get(commit.topic)
    if before is not None and before.id != commit.topic_id:
        raise ArchiveConflict(f"the archive belongs to another topic {commit.topic!r}: {before.id}")
    before = before or TopicArchive(id=commit.topic_id, last_commit=commit.number)
    after = TopicArchive(
        id=commit.topic_id,
        last_commit=commit.number,
        begins=commit.begins | before.begins,
        covered=_extended(before.covered, commit.covered, before.gaps),
        gaps=_extended(before.gaps, commit.gaps, before.covered),
        files=_changed(before.files, commit),
        removed=before.removed | dict.fromkeys(commit.removed, commit.at_ms),
    )
    return ArchiveState(number=commit.number, topics={**state.topics, commit.topic: after})


def check(state: ArchiveState, commit: Commit) -> None:
    """Raise ArchiveConflict or ArchiveDamaged if a commit may not follow on a state."""
    after = apply(state, commit).topics[commit.topic]
    for file in commit.added:
        whole = OffsetSpan(file.first, file.last + 1)
        if missing(after.covered.get(file.partition, ()), whole):
            raise ArchiveDamaged(f"{file.path} holds offsets {file.first} to {file.last}, which are not all covered")


def _extended(before: Mapping[int, Spans], new: Mapping[int, Spans], others: Mapping[int, Spans]) -> dict[int, Spans]:
    after = dict(before)
    for partition, spans in new.items():
        for taken in (before.get(partition, ()), others.get(partition, ())):
            if twice := overlap(taken, spans):
                raise ArchiveConflict(f"offsets {twice[0].start} to {twice[0].end - 1} are in the archive already")
        after[partition] = union((*before.get(partition, ()), *spans))
    return after


def _changed(files: tuple[ArchivedFile, ...], commit: Commit) -> tuple[ArchivedFile, ...]:
    removed = set(commit.removed)
    paths = {file.path for file in files}
    if not removed <= paths:
        raise ArchiveConflict(f"{min(removed - paths)} is not in the archive any more")
    if twice := [file.path for file in commit.added if file.path in paths]:
        raise ArchiveConflict(f"{twice[0]} is in the archive already")
    kept = (file for file in files if file.path not in removed)
    return tuple(sorted((*kept, *commit.added), key=lambda file: (file.partition, file.first, file.path)))
