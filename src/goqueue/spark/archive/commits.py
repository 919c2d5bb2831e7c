"""The commits of an archive, read and written.

A commit applies to the state that its writer has read. If another job has taken its number with a commit about another
topic, the writer tries the next number. If that commit is about the same topic, the write is refused, and its files
stay without a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from goqueue.seams.clock import Clock
from goqueue.spark.archive.manifest import (
    COMMITS,
    ArchiveConflict,
    ArchiveDamaged,
    ArchivedFile,
    ArchiveState,
    Commit,
    TopicArchive,
    apply,
    check,
    commit_name,
    commit_number,
    decode_commit,
    encode_commit,
    fold,
)
from goqueue.spark.archive.spans import Spans
from goqueue.spark.archive.store import ArchiveStore, NameTaken

SNAPSHOT_COMMITS: Final = 20
_ATTEMPTS: Final = 20
_REMOVED_MS: Final = 30 * 86_400_000


def is_archive(store: ArchiveStore) -> bool:
    """Return whether the directory has an archive."""
    return any(commit_number(name) is not None for name in store.names(COMMITS))


def load(store: ArchiveStore, known: ArchiveState | None = None) -> ArchiveState:
    """Return the state of an archive; commits up to the `known` state are not read again."""
    start = known or ArchiveState()
    numbers = sorted(number for name in store.names(COMMITS) if (number := commit_number(name)) is not None)
    if numbers and numbers != list(range(len(numbers))):
        raise ArchiveDamaged(
            f"a commit of the archive at {store.path} is missing: there are {len(numbers)}, the last is {numbers[-1]}",
            hint="restore the directory from a copy",
        )
    if start.number >= len(numbers):
        raise ArchiveDamaged(
            f"the archive at {store.path} ends with commit {len(numbers) - 1}, and was at {start.number} before",
            hint="restore the directory from a copy",
        )
    commits: list[Commit] = []
    for number in reversed(numbers[start.number + 1 :]):
        commits.append(decode_commit(store.read(commit_name(number)), number))
        if commits[-1].snapshot is not None:
            break
    return fold(start, reversed(commits))


def check_commits(store: ArchiveStore, state: ArchiveState) -> Iterator[str]:
    """Yield what is wrong with the commits of an archive, including those before the last snapshot.

    Reads begin with the last snapshot, so they do not notice damage before it.
    """
    folded = ArchiveState()
    for number in range(state.number + 1):
        try:
            commit = decode_commit(store.read(commit_name(number)), number)
            folded = apply(folded, commit)
        except (ArchiveDamaged, ArchiveConflict) as error:
            yield error.message
            return
        except FileNotFoundError:
            yield f"{commit_name(number)} is not there"
            return
        if commit.snapshot is not None and not _is_same(folded, commit.snapshot):
            yield f"{commit_name(number)} has a snapshot that is not what the commits up to it add up to"
            return


def _is_same(folded: ArchiveState, snapshot: ArchiveState) -> bool:
    """Return whether two states are equal, apart from files replaced long ago, which snapshots leave out."""

    def held(state: ArchiveState) -> ArchiveState:
        topics = {name: msgspec.structs.replace(topic, removed={}) for name, topic in state.topics.items()}
        return msgspec.structs.replace(state, topics=topics)

    return held(folded) == held(snapshot)


class ArchiveChange(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a job commits."""

    topic: str
    topic_id: UUID
    begins: Mapping[int, int] = {}
    covered: Mapping[int, Spans] = {}
    gaps: Mapping[int, Spans] = {}
    added: Sequence[ArchivedFile] = ()
    removed: Sequence[str] = ()


def write(store: ArchiveStore, state: ArchiveState, change: ArchiveChange, clock: Clock) -> ArchiveState:
    """Commit a change to a state; return the durable state after it.

    ArchiveConflict if another job has changed this topic since; nothing is committed then.
    """
    base = state.topics.get(change.topic)
    if lost := _lost_file(store, change.added):
        # # Another job may have committed, and has then deleted the files of this one.
        _require_same(base, load(store, state).topics.get(change.topic), store.path, change.topic)
        raise ArchiveDamaged(
            f"{lost.path} was written with {lost.bytes} bytes, but is missing or has another size",
            hint="the driver and all executors must share the directory",
        )
    taken: NameTaken | None = None
    for _ in range(_ATTEMPTS):
        commit = Commit(
            number=state.number + 1,
            at_ms=clock.now_ms(),
            topic=change.topic,
            topic_id=change.topic_id,
            begins=dict(change.begins),
            covered=dict(change.covered),
            gaps=dict(change.gaps),
            added=tuple(change.added),
            removed=tuple(change.removed),
        )
        check(state, commit)
        after = apply(state, commit)
        if commit.number % SNAPSHOT_COMMITS == SNAPSHOT_COMMITS - 1:
            after = _without_old(after, commit.at_ms)
            commit = msgspec.structs.replace(commit, snapshot=after)
        try:
            store.create(commit_name(commit.number), encode_commit(commit))
        except NameTaken as error:
            taken = error
            state = load(store, state)
            _require_same(base, state.topics.get(change.topic), store.path, change.topic)
        else:
            return after
    assert taken is not None
    raise ArchiveConflict(
        f"nothing could be committed to the archive at {store.path}: {taken.message}",
        hint=taken.hint or "other jobs write to it constantly: run the job again, or use another directory",
    ) from taken


def _lost_file(store: ArchiveStore, files: Iterable[ArchivedFile]) -> ArchivedFile | None:
    """Return a file that is missing or has another size than written."""
    return next((file for file in files if store.size(file.path) != file.bytes), None)


def _require_same(before: TopicArchive | None, now: TopicArchive | None, path: str, topic: str) -> None:
    if (before and before.last_commit) != (now and now.last_commit):
        raise ArchiveConflict(
            f"another job has archived topic {topic!r} to {path} at the same time, so this job does not commit",
            hint="its earlier commits stay; run one job per topic at a time; another run continues after the other job",
        )


def _without_old(state: ArchiveState, now_ms: int) -> ArchiveState:
    """Return a state without files that were replaced long ago."""
    topics = {
        name: msgspec.structs.replace(
            topic, removed={path: at_ms for path, at_ms in topic.removed.items() if at_ms > now_ms - _REMOVED_MS}
        )
        for name, topic in state.topics.items()
    }
    return msgspec.structs.replace(state, topics=topics)
