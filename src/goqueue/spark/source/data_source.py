"""The data source `goqueue`, as Spark asks for it: a schema, and readers and writers for batches and streams.

Options are parsed when Spark asks for a schema, reader or writer, so that mistakes are raised there. Other modules are
imported then, too: Spark imports this module to discover data sources.

A mistake in options is shown in one line. Spark would print the stack trace of its worker before it, unless an
environment variable of that worker prevents it; the worker ends with the error, so the variable affects nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from typing_extensions import override

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from goqueue.spark.source.options import ReadOptions
    from goqueue.spark.values.decoding import Decoding

_COLUMNS = (
    "key BINARY, value BINARY, {headers}topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, priority INT, trace_id STRING, schema_id INT"
)
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "


class GoQueueSource(DataSource):
    """Topics of a broker as rows; see docs/spark.md."""

    @classmethod
    @override
    def name(cls) -> str:
        return "goqueue"

    @override
    def schema(self) -> str | StructType:
        from goqueue.spark.source.options import ReadKind, parse_options

        with _told_in_a_line():
            options = parse_options(self.options, ReadKind.UNKNOWN)
            if options.decoding is not None:
                return _with_values(options, options.decoding)
            return _COLUMNS.format(headers=_HEADERS if options.includes_headers else "")

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        from goqueue.spark.source.options import ReadKind, parse_options
        from goqueue.spark.source.reader import GoQueueReader

        with _told_in_a_line():
            options = parse_options(self.options, ReadKind.BATCH)
            return GoQueueReader(options, _columns(schema, options.decoding))

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from goqueue.spark.source.options import ReadKind, parse_options
        from goqueue.spark.source.stream import GoQueueStreamReader

        # # With the stack trace: Spark raises another error after ours, and without the trace it shows only that one.
        options = parse_options(self.options, ReadKind.STREAM)
        return GoQueueStreamReader(options, _columns(schema, options.decoding))

    @override
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from goqueue.spark.sink.writers import GoQueueWriter, check_write

        with _told_in_a_line():
            return GoQueueWriter(check_write(self.options, schema, is_overwrite=overwrite))

    @override
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from goqueue.spark.sink.writers import GoQueueStreamWriter, check_write

        with _told_in_a_line():
            return GoQueueStreamWriter(check_write(self.options, schema, is_overwrite=overwrite))


@contextmanager
def _told_in_a_line() -> Iterator[None]:
    """Show errors of GoQueue without a stack trace, in a worker of Spark."""
    from goqueue.errors import GoQueueError

    try:
        yield
    except GoQueueError:
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        if spec is not None and spec.name.startswith("pyspark."):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def _with_values(options: ReadOptions, decoding: Decoding) -> StructType:
    """Return the schema with the columns of decoded values: as types, since names in it may need quotes in a text."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    from goqueue.spark.source.columns import SCHEMA
    from goqueue.spark.values.decode import fields_of

    stored = [field for field in SCHEMA if field.name != "headers" or options.includes_headers]
    return from_arrow_schema(pa.schema([*stored, *fields_of(decoding)]), prefer_timestamp_ntz=True)


def _columns(schema: StructType, decoding: Decoding | None) -> list[str]:
    """Return the names of the columns that Spark requests; Invalid for an unknown column or another type."""
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

    from goqueue.errors import Invalid
    from goqueue.spark.source.columns import schema_of
    from goqueue.spark.values.decode import fields_of

    names = list(schema.fieldNames())
    if not names:
        # # Arrow cannot represent rows without columns.
        raise Invalid("the schema has no column", hint="name one, for example offset BIGINT")
    decoded = {field.name: field for field in fields_of(decoding)} if decoding else {}
    stored = schema_of([name for name in names if name not in decoded])
    ours = [decoded.get(name) or stored.field(name) for name in names]
    for field, wanted in zip(ours, to_arrow_schema(schema, timezone="UTC"), strict=True):
        if wanted.type != field.type:
            kind = schema[field.name].dataType.simpleString()
            hint = f"its columns are {_COLUMNS.format(headers=_HEADERS)}"
            if field.name in decoded:
                hint = f"it is {from_arrow_type(field.type, prefer_timestamp_ntz=True).simpleString()}"
            raise Invalid(f"column {field.name} of a topic is not of type {kind}", hint=hint)
        if not wanted.nullable:
            raise Invalid(f"column {field.name} cannot be NOT NULL", hint="leave that out of the schema")
    return names
