"""The commits of an archive, read and written.

A commit holds only if nobody else has changed what it is about: whoever writes one says which state it follows on. If
another job was quicker with its number, but is about another topic, the next number is taken; otherwise the commit is
refused, and the files that it would have named are left over.
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
    """Tell whether something was archived there."""
    return any(commit_number(name) is not None for name in store.names(COMMITS))


def load(store: ArchiveStore, known: ArchiveState | None = None) -> ArchiveState:
    """Return what an archive holds; what is `known` already is not read again."""
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
    """Yield what is wrong with the commits of an archive, also with those that nobody reads any more.

    Whoever reads an archive begins with the last snapshot; the commits before it say how it came to be.
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
    """Tell whether two states hold the same; a snapshot has forgotten files which were replaced long ago."""

    def held(state: ArchiveState) -> ArchiveState:
        topics = {name: msgspec.structs.replace(topic, removed={}) for name, topic in state.topics.items()}
        return msgspec.structs.replace(state, topics=topics)

    return held(folded) == held(snapshot)


class ArchiveChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a job wants to commit."""

    topic: str
    topic_id: UUID
    begins: Mapping[int, int] = {}
    covered: Mapping[int, Spans] = {}
    gaps: Mapping[int, Spans] = {}
    added: Sequence[ArchivedFile] = ()
    removed: Sequence[str] = ()


def write(store: ArchiveStore, state: ArchiveState, change: ArchiveChange, clock: Clock) -> ArchiveState:
    """Commit a change that was made for a state; return the state after it, which is durable.

    ArchiveConflict if another job has changed this topic since; nothing has happened then.
    """
    base = state.topics.get(change.topic)
    if lost := _lost_file(store, change.added):
        # Another job may have committed, and has then deleted what this one could not commit any more.
        _require_same(base, load(store, state).topics.get(change.topic), store.path, change.topic)
        raise ArchiveDamaged(
            f"{lost.path} was written with {lost.bytes} bytes, and is not there like that",
            hint="the driver and all executors have to see the same directory",
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
        hint=taken.hint or "other jobs write to it all the time: run it again, or use another directory",
    ) from taken


def _lost_file(store: ArchiveStore, files: Iterable[ArchivedFile]) -> ArchivedFile | None:
    """Return a file that is not there as it was written."""
    return next((file for file in files if store.size(file.path) != file.bytes), None)


def _require_same(before: TopicArchive | None, now: TopicArchive | None, path: str, topic: str) -> None:
    if (before and before.last_commit) != (now and now.last_commit):
        raise ArchiveConflict(
            f"another job has archived topic {topic!r} to {path} at the same time, and what this one was about to "
            "commit is not kept",
            hint="what it has committed before stays; run one job for a topic at a time; to run this one again goes on "
            "where the other one has ended",
        )


def _without_old(state: ArchiveState, now_ms: int) -> ArchiveState:
    """Return a state that has forgotten files which were replaced long ago."""
    topics = {
        name: msgspec.structs.replace(
            topic, removed={path: at_ms for path, at_ms in topic.removed.items() if at_ms > now_ms - _REMOVED_MS}
        )
        for name, topic in state.topics.items()
    }
    return msgspec.structs.replace(state, topics=topics)
