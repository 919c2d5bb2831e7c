"""The files of an archive for other readers of Parquet: exactly the files that its commits name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from goqueue.errors import Invalid
from goqueue.spark.archive.commits import is_archive, load
from goqueue.spark.archive.manifest import NO_DATE, ArchiveState, not_archived
from goqueue.spark.archive.store import ArchiveStore, ArchiveUnreachable

_TOPIC_DIRECTORY: Final = "topic="
_DATE_DIRECTORY: Final = re.compile(rf"date=(\d{{4}}-\d\d-\d\d|{NO_DATE})")


def archived_files(path: str) -> list[str] | None:
    """Return the files of an archive, or of a part of it: `PATH/topic=NAME`, `PATH/topic=NAME/date=DAY` and below.

    The result keeps the scheme of the path, since Spark and pyarrow name some file systems differently. Names may
    contain the wildcards `*`, `?` and `[...]`. None if there is no archive of GoQueue; NotArchived if the archive has
    no such part. A day without archived messages has no files.
    """
    for root, below in _splits(path.rstrip("/")):
        try:
            store = ArchiveStore(root)
        except (ArchiveUnreachable, Invalid):
            # # A file system that only Spark knows: archives are written through pyarrow.
            return None
        if is_archive(store):
            return [f"{root.rstrip('/')}/{name}" for name in _below(load(store), store.path, below)]
    return None


def _splits(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield where an archive may be, and what of it is meant: above the last directory of a topic, and so on."""
    parts = path.split("/")
    yield path, []
    for number in reversed(range(len(parts))):
        if parts[number].startswith(_TOPIC_DIRECTORY):
            yield "/".join(parts[:number]) or ("/" if number else "."), [part for part in parts[number:] if part]


def _below(state: ArchiveState, path: str, below: list[str]) -> list[str]:
    topics = state.topics
    if below:
        topics = {name: each for name, each in topics.items() if fnmatchcase(f"{_TOPIC_DIRECTORY}{name}", below[0])}
        if not topics:
            raise not_archived(path, f"topic {below[0].removeprefix(_TOPIC_DIRECTORY)!r}", state.topics)
    found = [file.path for each in topics.values() for file in each.files if _is_below(file.path, below)]
    if not found and len(below) > 1 and not _DATE_DIRECTORY.fullmatch(below[1]):
        held = {"/".join(file.path.split("/")[:2]) for each in topics.values() for file in each.files}
        raise not_archived(path, "/".join(below), held)
    return found


def _is_below(path: str, below: list[str]) -> bool:
    parts = path.split("/")
    return len(parts) >= len(below) and all(map(fnmatchcase, parts, below))
