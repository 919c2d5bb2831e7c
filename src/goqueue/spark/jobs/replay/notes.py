"""What a replay notes about itself, so that the same command goes on with it and another one does not.

    DIR/job.json    what was asked for, and what that was found to mean
    DIR/query/      the checkpoint of Spark: how far it is, and the id by which the broker knows the query
    DIR/done.json   when it had reached its end

What was asked for is kept as it was written: `10m ago` means another time with every run, but is the same wish. What
it meant when the job began is beside it, and holds for all runs: also which topics of these names they were. A
directory is a path here, or a URL that pyarrow knows; a file of it is whole or not there, and none is ever replaced,
which Hadoop would refuse. On this machine a note is on the disk before anything else happens: a checkpoint without
notes could be that of any other job.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import fs

from goqueue.errors import Conflict, Corrupt, Unavailable
from goqueue.seams.disk import Disk, RealDisk
from goqueue.spark.archive.paths import known_scheme, require_whole_uri

_FILE: Final = "job.json"
_DONE_FILE: Final = "done.json"
_QUERY: Final = "query"
_VERSION: Final = 1
_FLAGS: Final = {
    "source": "SOURCE",
    "target": "TARGET",
    "start": "--from",
    "end": "--to",
    "where": "--where",
    "partitions": "--partitions",
    "has_origin": "--origin",
}


class ReplayDiffers(Conflict):
    """A job of that name was begun with other options."""

    code = "replay_differs"


class NotesLost(Conflict):
    """There is the rest of a job, but not what it was about."""

    code = "replay_notes_lost"


class JobDirectoryUnreachable(Unavailable):
    """The directory of a job cannot be read or written."""

    code = "job_directory_unreachable"


class JobDirectoryNotShared(Conflict):
    """Spark is on a server, and the directory of a job is on this machine."""

    code = "job_directory_not_shared"


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody wants to have replayed, as it was written; what differs here is another job."""

    source: str
    target: str
    start: str
    end: str
    where: str
    partitions: str
    has_origin: bool


class ReplayNotes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that has begun; `bounds` are options of the source."""

    wish: ReplayRequest
    bounds: dict[str, str]
    keeps_partitions: bool
    began_at: str
    source_id: str = ""
    target_id: str = ""
    """Which topics they were; empty if an earlier release has begun the job."""
    version: int = _VERSION


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    done_at: str


class JobDirectory:
    """Where one job keeps its notes and its checkpoint; it need not be there."""

    def __init__(self, path: str, *, files: tuple[fs.FileSystem, str] | None = None, disk: Disk | None = None) -> None:
        """Look at a directory; `files` are a file system and the path in it, if they are known."""
        require_whole_uri(path)
        self._disk: Disk = disk or RealDisk()
        self._is_url = _is_url(path)
        self.path = path.rstrip("/") if self._is_url else str(Path(path).expanduser().absolute())
        try:
            opened: tuple[fs.FileSystem, str] = files or fs.FileSystem.from_uri(known_scheme(self.path))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._unreachable(error) from error
        self._files, self._root = opened
        if isinstance(self._files, fs.LocalFileSystem):
            # A URL may write a path in several ways, and Spark reads it in another one than pyarrow.
            self.path = self._root

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps its checkpoint: what is local here is local for Spark, whose default may be elsewhere."""
        return f"file://{self.path}/{_QUERY}" if self.local is not None else f"{self.path}/{_QUERY}"

    @property
    def local(self) -> Path | None:
        """Where it is on this machine; None if it is elsewhere."""
        return Path(self._root) if isinstance(self._files, fs.LocalFileSystem) else None

    def require_shared(self) -> None:
        """Raise JobDirectoryNotShared if Spark on a server would keep the checkpoint in a directory of its own.

        Whoever writes `file:` says that both have the same one.
        """
        if self.local is not None and not self._is_url:
            raise JobDirectoryNotShared(
                f"Spark is on a server, which does not keep its checkpoint in {self.path} of this machine",
                hint="name storage that both see with --checkpoint, such as s3://bucket/jobs; if the server has the "
                f"same directory, as file://{self.local.parent}",
            )

    @property
    def done_at(self) -> str:
        """When the job had reached its end; empty if it has not."""
        text = self._content(_DONE_FILE)
        if text is None:
            return ""
        try:
            return msgspec.json.decode(text, type=_Done).done_at
        except msgspec.DecodeError as error:
            raise Corrupt(f"{self.path}/{_DONE_FILE} is no note of a replay: {error}") from None

    def read(self) -> ReplayNotes | None:
        """Return the notes of the job; None if it has not begun. Corrupt if they are not ours."""
        text = self._content(_FILE)
        if text is None:
            return None
        try:
            notes = msgspec.json.decode(text, type=ReplayNotes)
        except msgspec.DecodeError as error:
            raise Corrupt(
                f"{self.path}/{_FILE} are no notes of a replay: {error}", hint="name the job otherwise with --name"
            ) from None
        if notes.version != _VERSION:
            raise Corrupt(f"{self.path}/{_FILE} is of version {notes.version}, and this release knows {_VERSION}")
        return notes

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing of a job, neither notes nor a checkpoint."""
        names = [f"{self._root}/{name}" for name in (_FILE, _DONE_FILE, _QUERY)]
        try:
            found = self._files.get_file_info(names)
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error
        return all(each.type == fs.FileType.NotFound for each in found)

    def require_empty(self, name: str) -> None:
        """Raise NotesLost if a job that has no notes has left something, with which another one must not go on."""
        if not self.is_empty:
            raise NotesLost(
                f"{self.path} has a checkpoint, but not the notes {_FILE} that say what replay {name} was to do",
                hint="give this one another --name, or begin anew with --restart: messages may then be in the target "
                "twice",
            )

    def begin(self, notes: ReplayNotes) -> None:
        """Note a job that begins."""
        self._create(_FILE, notes)

    def finish(self, done_at: str) -> None:
        """Note that the job has reached its end."""
        self._create(_DONE_FILE, _Done(done_at=done_at))

    def forget(self) -> None:
        """Remove the notes and the checkpoint, and nothing else that may be there."""
        try:
            # The notes go last: as long as they are there, a job that was cut off in this is one that has begun.
            with suppress(FileNotFoundError):
                self._files.delete_file(f"{self._root}/{_DONE_FILE}")
            with suppress(FileNotFoundError):
                self._files.delete_dir(f"{self._root}/{_QUERY}")
            with suppress(FileNotFoundError):
                self._files.delete_file(f"{self._root}/{_FILE}")
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error

    def _content(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as opened:
                return bytes(opened.read())
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error

    def _create(self, name: str, content: msgspec.Struct) -> None:
        path = f"{self._root}/{name}"
        try:
            self._files.create_dir(self._root, recursive=True)
            with self._files.open_output_stream(f"{path}.new") as opened:
                opened.write(msgspec.json.format(msgspec.json.encode(content), indent=2))
            self._sync(f"{path}.new")
            self._files.move(f"{path}.new", path)
            self._sync(path)
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error

    def _sync(self, path: str) -> None:
        """Have a file and its name on the disk; storage elsewhere sees to that itself."""
        if self.local is None:
            return
        opened = self._disk.open(Path(path), writable=False)
        try:
            opened.sync()
        finally:
            opened.close()
        self._disk.sync_directory(self.local)
        # The directory of the job may be new, and so may those that it is in; what may not be opened is not.
        for directory in list(self.local.parents)[:2]:
            with suppress(PermissionError):
                self._disk.sync_directory(directory)

    def _unreachable(self, error: Exception) -> JobDirectoryUnreachable:
        return JobDirectoryUnreachable(
            f"the directory {self.path} of the job cannot be used: {error}", hint="name another with --checkpoint"
        )


def require_same(name: str, notes: ReplayNotes, wish: ReplayRequest) -> None:
    """Raise ReplayDiffers if a job that has begun is not the one that is wanted."""
    before, now = msgspec.structs.asdict(notes.wish), msgspec.structs.asdict(wish)
    differences = [
        f"{flag} {_shown(before[field])} and not {_shown(now[field])}"
        for field, flag in _FLAGS.items()
        if before[field] != now[field]
    ]
    if differences:
        raise ReplayDiffers(
            f"replay {name} was begun with {', '.join(differences)}",
            hint="give this one another --name, or begin anew with --restart: messages may then be in the target twice",
        )


def _is_url(path: str) -> bool:
    return "://" in path or path.startswith("file:")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if value else "nothing"
