"""The stored notes of a replay: the same command continues it, a different one is refused.

    DIR/job.json    the request, and the offsets and topics it resolved to
    DIR/query/      Spark's checkpoint: positions, and the id by which the broker knows the query
    DIR/done.json   written when the replay has finished

The request is stored as written: `10m ago` means another time in each run, but is the same request. The resolved
offsets and topic ids are stored beside it and hold for all runs. A directory is a local path or a URL that pyarrow
knows. Files are created atomically and never replaced, which Hadoop would refuse. Local notes are synced before the job
begins, since a checkpoint without notes could belong to another job.
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
    """A job of that name exists with other options."""

    code = "replay_differs"


class NotesLost(Conflict):
    """A checkpoint exists, but not the notes of its job."""

    code = "replay_notes_lost"


class JobDirectoryUnreachable(Unavailable):
    """The directory of a job cannot be read or written."""

    code = "job_directory_unreachable"


class JobDirectoryNotShared(Conflict):
    """Spark runs on a server, and the directory of a job is local."""

    code = "job_directory_not_shared"


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a replay as written; different arguments are another job."""

    source: str
    target: str
    start: str
    end: str
    where: str
    partitions: str
    has_origin: bool


class ReplayNotes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The notes of a job; `bounds` are options of the source."""

    wish: ReplayRequest
    bounds: dict[str, str]
    keeps_partitions: bool
    began_at: str
    source_id: str = ""
    target_id: str = ""
    """The ids of the topics; empty if an earlier release began the job."""
    version: int = _VERSION


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    done_at: str


class JobDirectory:
    """The directory with the notes and the checkpoint of one job; it need not exist."""

    def __init__(self, path: str, *, files: tuple[fs.FileSystem, str] | None = None, disk: Disk | None = None) -> None:
        """Open a directory; `files` are a file system and the path in it, if known."""
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
            # # Spark and pyarrow read some URLs of local paths differently.
            self.path = self._root

    @property
    def checkpoint(self) -> str:
        """The URL of Spark's checkpoint; local paths get a scheme, since Spark's default file system may be remote."""
        return f"file://{self.path}/{_QUERY}" if self.local is not None else f"{self.path}/{_QUERY}"

    @property
    def local(self) -> Path | None:
        """The local path; None if it is remote."""
        return Path(self._root) if isinstance(self._files, fs.LocalFileSystem) else None

    def require_shared(self) -> None:
        """Raise JobDirectoryNotShared if a Spark server would store the checkpoint in its own directory.

        A path with `file:` states that both share the directory.
        """
        if self.local is not None and not self._is_url:
            raise JobDirectoryNotShared(
                f"Spark runs on a server, which cannot store its checkpoint in {self.path} of this machine",
                hint="name shared storage with --checkpoint, such as s3://bucket/jobs; if the server has the "
                f"same directory, as file://{self.local.parent}",
            )

    @property
    def done_at(self) -> str:
        """When the job finished; empty if it has not."""
        text = self._content(_DONE_FILE)
        if text is None:
            return ""
        try:
            return msgspec.json.decode(text, type=_Done).done_at
        except msgspec.DecodeError as error:
            raise Corrupt(f"{self.path}/{_DONE_FILE} is not a note of a replay: {error}") from None

    def read(self) -> ReplayNotes | None:
        """Return the notes of the job; None if it has not begun. Corrupt if they are malformed."""
        text = self._content(_FILE)
        if text is None:
            return None
        try:
            notes = msgspec.json.decode(text, type=ReplayNotes)
        except msgspec.DecodeError as error:
            raise Corrupt(
                f"{self.path}/{_FILE} is not the notes of a replay: {error}", hint="choose another --name"
            ) from None
        if notes.version != _VERSION:
            raise Corrupt(f"{self.path}/{_FILE} is of version {notes.version}, and this release knows {_VERSION}")
        return notes

    @property
    def is_empty(self) -> bool:
        """Whether the directory has neither notes nor a checkpoint."""
        names = [f"{self._root}/{name}" for name in (_FILE, _DONE_FILE, _QUERY)]
        try:
            found = self._files.get_file_info(names)
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error
        return all(each.type == fs.FileType.NotFound for each in found)

    def require_empty(self, name: str) -> None:
        """Raise NotesLost if there is a checkpoint without notes, which another job must not use."""
        if not self.is_empty:
            raise NotesLost(
                f"{self.path} has a checkpoint, but the notes {_FILE} of replay {name} are missing",
                hint="give this job another --name, or start over with --restart: messages may then be in the target "
                "twice",
            )

    def begin(self, notes: ReplayNotes) -> None:
        """Write the notes of a new job."""
        self._create(_FILE, notes)

    def finish(self, done_at: str) -> None:
        """Note that the job has finished."""
        self._create(_DONE_FILE, _Done(done_at=done_at))

    def forget(self) -> None:
        """Remove the notes and the checkpoint, and no other files."""
        try:
            # # The notes go last, so that an interrupted removal leaves a job that has begun.
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
        """Sync a local file and its name to the disk."""
        if self.local is None:
            return
        opened = self._disk.open(Path(path), writable=False)
        try:
            opened.sync()
        finally:
            opened.close()
        self._disk.sync_directory(self.local)
        # # The directory of the job and its parents may be new; those that cannot be opened are not.
        for directory in list(self.local.parents)[:2]:
            with suppress(PermissionError):
                self._disk.sync_directory(directory)

    def _unreachable(self, error: Exception) -> JobDirectoryUnreachable:
        return JobDirectoryUnreachable(
            f"the directory {self.path} of the job cannot be used: {error}", hint="name another with --checkpoint"
        )


def require_same(name: str, notes: ReplayNotes, wish: ReplayRequest) -> None:
    """Raise ReplayDiffers if the notes of a job belong to another request."""
    before, now = msgspec.structs.asdict(notes.wish), msgspec.structs.asdict(wish)
    differences = [
        f"{flag} {_shown(before[field])} and not {_shown(now[field])}"
        for field, flag in _FLAGS.items()
        if before[field] != now[field]
    ]
    if differences:
        raise ReplayDiffers(
            f"replay {name} was begun with {', '.join(differences)}",
            hint="give this job another --name, or start over with --restart: messages may then be in the target twice",
        )


def _is_url(path: str) -> bool:
    return "://" in path or path.startswith("file:")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if value else "nothing"
