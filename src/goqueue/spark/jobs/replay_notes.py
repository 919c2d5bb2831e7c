"""What a replay notes about itself, so that the same command goes on with it and another one does not.

    DIR/job.json    what was asked for, what that was found to mean, and whether it is done
    DIR/query/      the checkpoint of Spark: how far it is, and the id by which the broker knows the query

What was asked for is kept as it was written: `10m ago` means another time with every run, but is the same wish. What
it meant when the job began is beside it, and holds for all runs. A directory is a path here, or a URL that pyarrow
knows; a file of it is whole or not there.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import fs

from goqueue.errors import Conflict, Corrupt, Unavailable

_FILE: Final = "job.json"
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


class JobDirectoryUnreachable(Unavailable):
    """The directory of a job cannot be read or written."""

    code = "job_directory_unreachable"


class ReplayWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody wants to have replayed, as it was written; what differs here is another job."""

    source: str
    target: str
    start: str
    end: str
    where: str
    partitions: str
    has_origin: bool


class ReplayNotes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that has begun; `bounds` are options of the source, and `done_at` is empty until it has reached its end."""

    wish: ReplayWish
    bounds: dict[str, str]
    keeps_partitions: bool
    began_at: str
    done_at: str = ""
    version: int = _VERSION


class JobDirectory:
    """Where one job keeps its notes and its checkpoint; it need not be there."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") if "://" in path else str(Path(path).expanduser().absolute())
        try:
            self._files, self._root = fs.FileSystem.from_uri(self.path.replace("s3a://", "s3://", 1))
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps its checkpoint."""
        return f"{self.path}/{_QUERY}"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return isinstance(self._files, fs.LocalFileSystem)

    def read(self) -> ReplayNotes | None:
        """Return the notes of the job; None if it has not begun. Corrupt if they are not ours."""
        try:
            with self._files.open_input_stream(f"{self._root}/{_FILE}") as opened:
                text = opened.read()
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error
        try:
            notes = msgspec.json.decode(text, type=ReplayNotes)
        except msgspec.DecodeError as error:
            raise Corrupt(
                f"{self.path}/{_FILE} are no notes of a replay: {error}", hint="name the job otherwise with --name"
            ) from None
        if notes.version != _VERSION:
            raise Corrupt(f"{self.path}/{_FILE} is of version {notes.version}, and this release knows {_VERSION}")
        return notes

    def write(self, notes: ReplayNotes) -> None:
        """Replace the notes of the job."""
        name = f"{self._root}/{_FILE}"
        try:
            self._files.create_dir(self._root, recursive=True)
            with self._files.open_output_stream(f"{name}.new") as opened:
                opened.write(msgspec.json.format(msgspec.json.encode(notes), indent=2))
            self._files.move(f"{name}.new", name)
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error

    def forget(self) -> None:
        """Remove the notes and the checkpoint, and nothing else that may be there."""
        try:
            # The notes go last: as long as they are there, a job that was cut off in this is one that has begun.
            with suppress(FileNotFoundError):
                self._files.delete_dir(f"{self._root}/{_QUERY}")
            with suppress(FileNotFoundError):
                self._files.delete_file(f"{self._root}/{_FILE}")
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> JobDirectoryUnreachable:
        return JobDirectoryUnreachable(
            f"the directory {self.path} of the job cannot be used: {error}", hint="name another with --checkpoint"
        )


def require_same(name: str, notes: ReplayNotes, wish: ReplayWish) -> None:
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


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if value else "nothing"
