"""Sinks that write Delta tables: a batch is one commit of the table, so readers of Delta see all of it or nothing.

Spark writes the rows of a batch as Parquet, to a directory of its own below that of the table:

    table/_delta_log/00000000000000000012.json                           the log of the table
    table/batch-0000000007-5f2c9a01-ab12cd34/country=UK/part-....parquet   files of batch 7

Files that the log does not name are not part of the table. A commit by `deltalake` (from PyPI, no jar) names those of a
batch, and notes beside them which batch of which query it was, as an application transaction of the Delta protocol. A
batch that comes again is known by that, and of two drivers that commit the same one at the same time, one is refused.
The next start removes the files of an interrupted attempt, unless a driver that was presumed dead is about to commit it
(`attempts`): then they are removed after its batch was committed.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from goqueue.errors import Conflict, Invalid
from goqueue.seams.clock import SystemClock
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.archive.paths import known_scheme
from goqueue.spark.pipelines.run.checkpoints import query_of
from goqueue.spark.pipelines.spec.model import DeltaSink, PipelineSpec
from goqueue.spark.pipelines.write import attempts
from goqueue.spark.pipelines.write.commits import not_there
from goqueue.spark.pipelines.write.file_systems import Files, LocalFiles, open_files

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_BATCH: Final = re.compile(r"batch-(\d+)-([0-9a-f]{8})-[0-9a-f]{8}")
# # The timestamp format of Delta in files and partition names; the session may have another.
_TIMESTAMPS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}


def require_delta(spec: PipelineSpec) -> None:
    """Raise Invalid if a pipeline writes Delta tables, and what does that is not installed."""
    wanted = [sink.name for sink in spec.sinks if isinstance(sink, DeltaSink)]
    if wanted and find_spec("deltalake") is None:
        raise Invalid(
            f"sink {wanted[0]} of pipeline {spec.name} writes a Delta table, and deltalake is not installed",
            hint="pip install 'goqueue[delta]'",
        )


def writing_delta(sink: DeltaSink, checkpoint: str) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes the rows of each batch, exactly once."""
    opened: list[_Table] = []

    def write(batch: DataFrame, number: int) -> None:
        if not opened:
            opened.append(_Table(sink, batch, query_of(batch, checkpoint)))
        if number > opened[0].last:
            opened[0].write(batch, number)

    return write


def write_delta(sink: DeltaSink, rows: DataFrame, group: str) -> None:
    """Write all rows of a table in one commit; each call adds them to what is there."""
    table = _Table(sink, rows, group)
    if not table.write(rows, table.last + 1):
        raise Conflict(
            f"another run has written sink {sink.name} at the same time, and the rows of this one are not there",
            hint="run it again",
        )


class _Table:
    """A Delta table as one writer sees it."""

    def __init__(self, sink: DeltaSink, rows: DataFrame, writer: str) -> None:
        self._sink = sink
        self._files, self._path = open_files(rows.sparkSession, sink.path)
        if "://" not in self._path and not isinstance(self._files, LocalFiles):
            raise Invalid(
                f"sink {sink.name} writes {sink.path} to Spark's default file system, which deltalake does not know",
                hint="write the path with its scheme: hdfs://..., s3a://..., or file:///...",
            )
        self._writer = writer
        self._mark = hashlib.blake2b(writer.encode(), digest_size=4).hexdigest()
        self.last = self._committed(self._open())
        self._leftovers = self._remove_leftovers()

    def _remove_leftovers(self) -> dict[str, int]:
        """Remove the files of attempts of this writer that were never committed; return those that still may be."""
        left: dict[str, int] = {}
        for name in self._files.names(self._path):
            found = _BATCH.fullmatch(name)
            if found and found[2] == self._mark and int(found[1]) > self.last:
                attempts.remove_unless_sealed(self._files, f"{self._path}/{name}")
                if self._files.exists(f"{self._path}/{name}"):
                    left[name] = int(found[1])
        return left

    def write(self, rows: DataFrame, number: int) -> bool:
        """Write rows, and commit them as a batch; without rows, nothing happens.

        Returns False if another attempt at this batch was committed before. Overtaken if another run has removed ours.
        """
        name = f"batch-{number:010}-{self._mark}-{SystemEntropy().token(4).hex()}"
        directory = f"{self._path}/{name}"
        attempts.begin(self._files, directory)
        with _timestamps_of_delta(rows.sparkSession):
            rows.write.format("parquet").mode("append").partitionBy(*self._sink.partition_by).save(directory)
        attempts.seal(self._files, directory)
        actions = list(_added(self._files, self._path, name, SystemClock().now_ms()))
        if not actions:
            if not self._sink.partition_by and not self._files.walk(directory):
                raise not_there(number, directory)
            self._files.remove(directory)
            return True
        is_ours = self._commit(rows.schema, actions, number)
        self.last = number
        if is_ours:
            attempts.unseal(self._files, directory)
        else:
            self._files.remove(directory)
        self._forget_leftovers(are_lost=is_ours)
        return is_ours

    def _forget_leftovers(self, *, are_lost: bool) -> None:
        """Remove what other attempts have left of batches that are committed now, unless one of them was committed."""
        for name in [name for name, number in self._leftovers.items() if number <= self.last]:
            if are_lost:
                self._files.remove(f"{self._path}/{name}")
            del self._leftovers[name]

    def _commit(self, schema: StructType, actions: list[AddAction], number: int) -> bool:
        """Commit files as a batch, unless the table has the batch; tell whether they were committed."""
        from deltalake import CommitProperties, Schema, Transaction
        from deltalake.exceptions import SchemaMismatchError
        from deltalake.transaction import create_table_with_add_actions

        by = list(self._sink.partition_by)
        properties = CommitProperties(app_transactions=[Transaction(self._writer, number)])
        try:
            ours = Schema.from_json(_delta_schema(schema))
        except (ValueError, SchemaMismatchError) as error:
            raise Invalid(
                f"sink {self._sink.name} cannot write {self._sink.input} as a Delta table: {error}",
                hint="cast columns of types that Delta does not have",
            ) from None
        table = self._open()
        if table is None:
            create_table_with_add_actions(self._uri, ours, actions, partition_by=by, commit_properties=properties)
            return True
        if self._committed(table) >= number:
            return False
        self._require_fit(table, ours.to_json(), by)
        table.create_write_transaction([*actions], "append", ours, by, commit_properties=properties)
        return True

    def _require_fit(self, table: DeltaTable, schema: str, by: list[str]) -> None:
        there, ours = _types(table.schema().to_json()), _types(schema)
        if there != ours:
            raise Invalid(
                f"{self._path} is a table with other columns than sink {self._sink.name} writes: it has {_words(there)}"
                f", and the sink writes {_words(ours)}",
                hint="choose another path, or change the table with Delta's own tools",
            )
        if table.metadata().partition_columns != by:
            raise Invalid(
                f"{self._path} is partitioned by {', '.join(table.metadata().partition_columns) or 'nothing'}, "
                f"and sink {self._sink.name} by {', '.join(by) or 'nothing'}",
                hint="choose another path, or the table's partition_by",
            )

    def _committed(self, table: DeltaTable | None) -> int:
        """Return the last batch of this writer that is in the table."""
        found = None if table is None else table.transaction_version(self._writer)
        return -1 if found is None else found

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable

        # A commit is checked against the version that was opened, so each begins with the newest.
        return DeltaTable(self._uri) if DeltaTable.is_deltatable(self._uri) else None

    @property
    def _uri(self) -> str:
        return known_scheme(self._path)


@contextmanager
def _timestamps_of_delta(session: SparkSession) -> Iterator[None]:
    """Make Spark write timestamps as Delta reads them; the values of rows are computed before."""
    before = {name: session.conf.get(name) for name in _TIMESTAMPS}
    for name, text in _TIMESTAMPS.items():
        session.conf.set(name, text)
    try:
        yield
    finally:
        for name, own in before.items():
            session.conf.set(name, own or "")


def _added(files: Files, path: str, directory: str, now_ms: int) -> Iterator[AddAction]:
    from deltalake.transaction import AddAction

    for file in files.walk(f"{path}/{directory}"):
        inside = f"{directory}/{file.path}"
        rows = files.count_parquet_rows(f"{path}/{inside}")
        if rows:
            stats = json.dumps({"numRecords": rows})
            yield AddAction(inside, file.size_bytes, partition_values(file.path), now_ms, data_change=True, stats=stats)


def partition_values(path: str) -> dict[str, str | None]:
    """Return what the directories of a file say of its rows, as Spark writes them: `country=UK/day=1/...`."""
    pairs = [name.partition("=") for name in posixpath.dirname(path).split("/") if name]
    return {unquote(column): None if text == _NULL else unquote(text) for column, _, text in pairs}


def _delta_schema(schema: StructType) -> str:
    """Return a schema as Delta writes it: as Spark does, without notes such as those of watermarks."""
    document = json.loads(schema.json())
    for column in document["fields"]:
        column["metadata"] = {}
        column["nullable"] = True
    return json.dumps(document)


def _types(schema: str) -> dict[str, str]:
    fields = json.loads(schema)["fields"]
    return {field["name"]: field["type"] if isinstance(field["type"], str) else "nested" for field in fields}


def _words(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items())
