"""How a batch of rows becomes files that every reader may read: staged elsewhere, named by a manifest, then renamed.

Beside the directory that readers see, and never in it, is one for the notes of its writers:

    lake/country=UK/batch-0000000012-00000-5f2c9a01.snappy.parquet     what readers see: nothing but data files
    .lake.goqueue/WRITER/staging/12-ab12cd34/rows/...                  rows of batch 12 while they are written
    .lake.goqueue/WRITER/manifests/00000000000000000012                which of these files get which names

WRITER is the id of a stream's query, or `table.` with the name of a pipeline's sink. A batch goes through five steps:

| step                           | what a crash leaves before the next step      | what the next start does            |
|--------------------------------|-----------------------------------------------|-------------------------------------|
| 1 Spark writes staged files    | files that readers do not see                 | removes them; the batch repeats     |
| 2 the attempt is sealed        | files that readers do not see                 | the batch repeats, and then they go |
| 3 the manifest is created      | a committed batch that readers do not see yet | renames the files                   |
| 4 files are renamed one by one | a committed batch that readers see in part    | renames the others                  |
| 5 the staging directory goes   | a committed batch                             | nothing: the batch is known         |

So a batch is committed by its manifest, which can be created only once; a batch that comes again changes nothing. All
batches up to the last manifest are committed, since a query commits them in order. Old manifests are removed.

Two drivers may do this at the same time, when one was taken for dead and is not: `attempts` keeps them apart.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Final

import msgspec

from goqueue.errors import Invalid, Unavailable
from goqueue.seams.entropy import Entropy
from goqueue.spark.pipelines.write import attempts
from goqueue.spark.pipelines.write.file_systems import Files, StoredFile

TABLE_PREFIX: Final = "table."
MANIFESTS_KEPT: Final = 100
COMMITTED: Final = re.compile(r"(.*/)?batch-\d{10,}-\d{5,}-[0-9a-f]{8}(\..*)?")
"""The names of files that were committed, below the directory that readers see."""
_ROWS: Final = "rows"
_ATTEMPT: Final = re.compile(r"(\d+)-[0-9a-f]+")
_FIRST_TASK: Final = re.compile(r"(.*/)?part-0+-[^/]*\.parquet$")


class Manifest(msgspec.Struct):
    """A batch: the name of the attempt, and each file that it has staged with the name that readers see."""

    batch: int
    staged: str
    files: list[tuple[str, str]]


class FileCommits:
    """The batches that one writer has in a directory."""

    def __init__(self, files: Files, path: str, writer: str, entropy: Entropy) -> None:
        """Open a directory, which need not be there; call `recover` first."""
        self._files = files
        self._entropy = entropy
        self._path = path
        self._notes = notes_of(path)
        self._own = f"{self._notes}/{writer}"
        self._staging = f"{self._own}/staging"
        self._mark = hashlib.blake2b(writer.encode(), digest_size=4).hexdigest()
        self.writer = writer
        self.last = -1
        """The last batch that is committed."""

    def require_own(self, sink: str) -> None:
        """Raise Invalid if another stream has written files here: its rows would be there beside ours."""
        others = [name for name in self._files.names(self._notes) if self._is_other_stream(name)]
        if not others:
            return
        if self._files.walk(self._path):
            raise Invalid(
                f"{self._path} holds files of a query that sink {sink} does not go on with: rows could be there twice",
                hint=f"choose another path, or move {self._path} away to begin anew",
            )
        for name in others:
            self._files.remove(f"{self._notes}/{name}")

    def _is_other_stream(self, name: str) -> bool:
        if name == self.writer or name.startswith((TABLE_PREFIX, ".")):
            return False
        return bool(self._files.names(f"{self._notes}/{name}/manifests"))

    def recover(self) -> None:
        """Finish the commit that a crash has interrupted, and remove what was never committed."""
        self._settle()
        for name in filter(_ATTEMPT.fullmatch, self._files.names(self._staging)):
            attempts.remove_unless_sealed(self._files, f"{self._staging}/{name}")

    def stage(self, batch: int) -> str:
        """Return a directory for Spark to write the rows of a batch to, which is not there yet."""
        attempt = f"{self._staging}/{batch}-{self._entropy.token(4).hex()}"
        attempts.begin(self._files, attempt)
        return f"{attempt}/{_ROWS}"

    def commit(self, batch: int, staged: str, *, is_partitioned: bool = True) -> bool:
        """Commit what was written to a staging directory; files without rows are left out.

        Spark writes at least one file, unless they are partitioned by a column. Unavailable if there is none.

        Returns False if another attempt at this batch was committed before, which then counts. Overtaken if another
        run has removed the rows.
        """
        attempt = posixpath.dirname(staged)
        attempts.seal(self._files, attempt)
        files = self._files.walk(staged)
        if not files and not (is_partitioned and self._files.exists(staged)):
            raise not_there(batch, staged)
        found = [file for file in files if not self._is_empty(staged, file)]
        if not found:
            self._files.remove(attempt)
            return True
        is_ours = self._create_manifest(batch, posixpath.basename(attempt), found)
        self._settle()
        return is_ours

    def _create_manifest(self, batch: int, attempt: str, found: list[StoredFile]) -> bool:
        """Create the manifest of a batch, unless the batch is committed; tell whether it is ours."""
        # The manifest of a batch that was committed long ago is gone.
        if batch <= max(self._numbers(), default=-1):
            return False
        names = [(file.path, self._final(batch, index, file.path)) for index, file in enumerate(found)]
        manifest = Manifest(batch, attempt, names)
        try:
            self._files.create(self._manifest_path(batch), msgspec.json.encode(manifest))
        except FileExistsError:
            return False
        return True

    def adopt(self, batch: int) -> None:
        """Take a batch, and all before it, for committed without files of ours."""
        if batch > self.last:
            self._files.create(self._manifest_path(batch), msgspec.json.encode(Manifest(batch, "", [])))
            self.last = batch

    def _settle(self) -> None:
        """Put the files of committed attempts in place, and remove all other attempts at committed batches."""
        numbers = sorted(self._numbers())
        self.last = max(numbers, default=-1)
        for name in self._files.names(self._staging):
            found = _ATTEMPT.fullmatch(name)
            if found is None or int(found[1]) > self.last:
                continue
            batch = int(found[1])
            manifest = self._manifest(batch) if batch in numbers else None
            if manifest is not None and manifest.staged == name:
                self._publish(manifest)
            self._files.remove(f"{self._staging}/{name}")
        for batch in numbers[:-MANIFESTS_KEPT]:
            self._files.remove(self._manifest_path(batch))

    def _publish(self, manifest: Manifest) -> None:
        for name, target in manifest.files:
            source = f"{self._staging}/{manifest.staged}/{_ROWS}/{name}"
            try:
                self._files.move(source, f"{self._path}/{target}")
            except FileNotFoundError:
                # It was renamed before a crash, or by another run.
                if self._files.exists(source):
                    raise

    def _is_empty(self, staged: str, file: StoredFile) -> bool:
        if not file.size_bytes:
            return True
        # Of tasks without rows, only the first one writes a file, which has nothing but a schema.
        has_rows = _FIRST_TASK.match(file.path) is None or self._files.count_parquet_rows(f"{staged}/{file.path}")
        return not has_rows

    def _final(self, batch: int, index: int, path: str) -> str:
        directory, name = posixpath.split(path)
        suffix = name[name.find(".") :] if "." in name else ""
        return posixpath.join(directory, f"batch-{batch:010}-{index:05}-{self._mark}{suffix}")

    def _numbers(self) -> list[int]:
        return [int(name) for name in self._files.names(f"{self._own}/manifests") if name.isdecimal()]

    def _manifest(self, batch: int) -> Manifest:
        return msgspec.json.decode(self._files.read(self._manifest_path(batch)), type=Manifest)

    def _manifest_path(self, batch: int) -> str:
        return f"{self._own}/manifests/{batch:020}"


def not_there(batch: int, staged: str) -> Unavailable:
    """Return the error for rows that are missing where Spark wrote them."""
    return Unavailable(
        f"the rows of batch {batch} are not where they were written, {staged}",
        hint="on a cluster, write to a directory that all its machines share; a path outside of Spark's default file "
        "system needs its scheme",
    )


def notes_of(path: str) -> str:
    """Return the directory beside another one where its writers keep their notes."""
    directory, _, name = path.rpartition("/")
    if not name or directory.endswith(":/"):
        raise Invalid(
            f"{path} has no directory above it, where rows could be staged", hint="write to a directory below it"
        )
    return f"{directory}/.{name}.goqueue"
