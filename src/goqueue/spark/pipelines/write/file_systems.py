"""Where a pipeline's files are: the few operations that committing a batch needs, on this machine or through Hadoop.

| path                                      | file system   | a move is                                            |
|-------------------------------------------|---------------|------------------------------------------------------|
| `lake`, `/data/lake`, `file:///data/lake` | `LocalFiles`  | an atomic rename                                     |
| `hdfs://...`, `s3a://...`, any other URI  | `HadoopFiles` | atomic on HDFS, a copy of the whole object elsewhere |

`HadoopFiles` asks Spark's Java, so it works wherever Spark itself writes, with the same settings and credentials.
Spark Connect has no Java to ask: there, only local paths work, which are those of the server.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from goqueue.errors import Invalid
from goqueue.spark.archive.paths import normal_path
from goqueue.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# # Hadoop's arguments `recursive` and `overwrite`.
_ONE, _ALL, _REPLACE = False, True, True


class StoredFile(NamedTuple):
    """A file; its path begins at the directory that was listed."""

    path: str
    size_bytes: int


class Files(Protocol):
    """A file system; all paths are whole ones, with slashes."""

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory; none if it is not there."""
        ...

    def walk(self, directory: str) -> list[StoredFile]:
        """Return all files below a directory, in order, without hidden ones."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""
        ...

    def move(self, source: str, target: str) -> None:
        """Rename a file or directory; directories above the target are made, and a file at the target is replaced.

        FileNotFoundError if there is nothing of that name.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; harmless if it is not there."""
        ...

    def read(self, path: str) -> bytes:
        """Return what a small file holds."""
        ...

    def create(self, path: str, content: bytes) -> None:
        """Make a file that is there as a whole or not at all; FileExistsError if the name is taken."""
        ...

    def count_parquet_rows(self, path: str) -> int:
        """Return how many rows a Parquet file has, by its footer."""
        ...


def is_local_path(path: str) -> bool:
    """Tell whether a path is one of this machine, as written; a path without a scheme usually is."""
    return path.startswith("file:") or "://" not in path


def open_files(session: SparkSession, path: str) -> tuple[Files, str]:
    """Return the file system that Spark uses for a path, and the path as that file system wants it."""
    if is_remote(session):
        if not is_local_path(path):
            raise Invalid(
                f"{path} cannot be written through Spark Connect: files there are put in place by Spark's Java",
                hint="write to a directory of the server, or run the pipeline with another --master",
            )
        return LocalFiles(), normal_path(path)
    hadoop = HadoopFiles(session)
    is_plain = is_local_path(path) and (path.startswith("file:") or hadoop.is_default_local)
    return (LocalFiles(), normal_path(path)) if is_plain else (hadoop, path.rstrip("/"))


def is_hidden(name: str) -> bool:
    """Tell whether Spark leaves a name out when it reads a directory; `_day=1` is a partition."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _draft_name(name: str) -> str:
    """Return a hidden name that no other process has for the same file, also not one of another machine."""
    return f".{name}.{platform.node()}.{os.getpid()}"


def _give_name(draft: Path, final: Path) -> None:
    """Give a file its name, unless the name is taken."""
    try:
        # Unlike a rename, a link fails if the name is taken; not every file system has links.
        os.link(draft, final)
    except FileExistsError:
        raise
    except OSError:
        if final.exists():
            raise FileExistsError(str(final)) from None
        draft.replace(final)


class LocalFiles:
    """Files of this machine, or of whatever is mounted there."""

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(path.name for path in Path(directory).iterdir())
        except FileNotFoundError:
            return []

    def walk(self, directory: str) -> list[StoredFile]:
        return sorted(self._below(Path(directory), ""))

    def _below(self, directory: Path, prefix: str) -> Iterator[StoredFile]:
        for name in self.names(str(directory)):
            path = directory / name
            if is_hidden(name):
                continue
            if path.is_dir():
                yield from self._below(path, f"{prefix}{name}/")
            else:
                yield StoredFile(f"{prefix}{name}", path.stat().st_size)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def move(self, source: str, target: str) -> None:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        try:
            Path(source).replace(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise Invalid(
                f"{target} is on another file system than the directory beside it, where rows are staged",
                hint="write to a directory below the mount point",
            ) from None

    def remove(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def create(self, path: str, content: bytes) -> None:
        final = Path(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        draft = final.with_name(_draft_name(final.name))
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _give_name(draft, final)
        finally:
            draft.unlink(missing_ok=True)

    def count_parquet_rows(self, path: str) -> int:
        from pyarrow import parquet

        return int(parquet.read_metadata(path).num_rows)


class HadoopFiles:
    """Files of any file system that Spark's Java knows."""

    def __init__(self, session: SparkSession) -> None:
        self._java: Any = session._jvm
        self._conf: Any = session._jsparkSession.sessionState().newHadoopConf()

    @property
    def is_default_local(self) -> bool:
        """Whether paths without a scheme are files of this machine."""
        return str(self._conf.get("fs.defaultFS", "file:///")).startswith("file:")

    def names(self, directory: str) -> list[str]:
        system, path = self._open(directory)
        if not system.exists(path):
            return []
        return sorted(each.getPath().getName() for each in system.listStatus(path))

    def walk(self, directory: str) -> list[StoredFile]:
        return sorted(self._below(directory, ""))

    def _below(self, directory: str, prefix: str) -> Iterator[StoredFile]:
        system, path = self._open(directory)
        if not system.exists(path):
            return
        for each in system.listStatus(path):
            name = each.getPath().getName()
            if is_hidden(name):
                continue
            if each.isDirectory():
                yield from self._below(f"{directory}/{name}", f"{prefix}{name}/")
            else:
                yield StoredFile(f"{prefix}{name}", int(each.getLen()))

    def exists(self, path: str) -> bool:
        system, found = self._open(path)
        return bool(system.exists(found))

    def move(self, source: str, target: str) -> None:
        system, old = self._open(source)
        _, new = self._open(target)
        if not system.exists(old):
            raise FileNotFoundError(source)
        system.mkdirs(new.getParent())
        if system.exists(new) and not system.getFileStatus(new).isDirectory():
            system.delete(new, _ONE)
        if not system.rename(old, new):
            raise OSError(f"{source} could not be renamed to {target}")

    def remove(self, path: str) -> None:
        system, found = self._open(path)
        system.delete(found, _ALL)

    def read(self, path: str) -> bytes:
        system, found = self._open(path)
        stream = system.open(found)
        try:
            text: str = self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text.encode()

    def create(self, path: str, content: bytes) -> None:
        directory, _, name = path.rpartition("/")
        draft = f"{directory}/{_draft_name(name)}"
        system, hidden = self._open(draft)
        stream = system.create(hidden, _REPLACE)
        stream.write(bytearray(content))
        stream.close()
        _, final = self._open(path)
        if system.exists(final) or not system.rename(hidden, final):
            system.delete(hidden, _ONE)
            raise FileExistsError(path)

    def count_parquet_rows(self, path: str) -> int:
        _, found = self._open(path)
        parquet = self._java.org.apache.parquet.hadoop
        file = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(found, self._conf))
        try:
            return int(file.getRecordCount())
        finally:
            file.close()

    def _open(self, path: str) -> tuple[Any, Any]:
        found = self._java.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(self._conf), found
