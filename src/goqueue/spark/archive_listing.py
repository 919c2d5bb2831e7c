"""The files of an archive for those who read them with other means: all that its commits name, and no others."""

from __future__ import annotations

from goqueue.spark.archive_commits import is_archive, load
from goqueue.spark.archive_store import ArchiveStore, ArchiveUnreachable

_TOPIC_DIRECTORY = "topic="


def archived_files(path: str) -> list[str] | None:
    """Return the files of an archive, or of one topic of it, if the path ends with `topic=NAME`.

    They are written as the path is, so that Spark, which calls some file systems otherwise, finds them as well. None if
    nothing there is an archive of GoQueue.
    """
    root, topic = _split(path.rstrip("/"))
    try:
        store = ArchiveStore(root)
    except ArchiveUnreachable:
        # A file system that Spark may know. Nothing was archived there, since that is written by other means.
        return None
    if not is_archive(store):
        return None
    topics = load(store).topics
    wanted = topics.values() if topic is None else [topics[topic]] if topic in topics else []
    return [f"{root.rstrip('/')}/{file.path}" for each in wanted for file in each.files]


def _split(path: str) -> tuple[str, str | None]:
    root, slash, last = path.rpartition("/")
    if not last.startswith(_TOPIC_DIRECTORY):
        return path, None
    return root or slash or ".", last.removeprefix(_TOPIC_DIRECTORY)
