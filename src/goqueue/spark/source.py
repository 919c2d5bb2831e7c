"""The data source `goqueue`, as Spark asks for it: a schema, and readers and writers for batches and streams.

Options are parsed where Spark asks for something, so that a mistake is told where it was made. All the rest is
imported then, too: Spark imports this module just to learn that it exists.
"""

from __future__ import annotations

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
    def schema(self) -> str:
        from goqueue.spark.options import Kind, parse_options

        options = parse_options(self.options, Kind.UNKNOWN)
        return _COLUMNS.format(headers=_HEADERS if options.includes_headers else "")

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        from goqueue.spark.options import Kind, parse_options
        from goqueue.spark.reader import GoQueueReader

        return GoQueueReader(parse_options(self.options, Kind.BATCH), _columns(schema))

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from goqueue.spark.options import Kind, parse_options
        from goqueue.spark.stream import GoQueueStreamReader

        return GoQueueStreamReader(parse_options(self.options, Kind.STREAM), _columns(schema))

    @override
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from goqueue.spark.sink import GoQueueWriter, check_write

        return GoQueueWriter(check_write(self.options, schema, is_overwrite=overwrite))

    @override
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from goqueue.spark.sink import GoQueueStreamWriter, check_write

        return GoQueueStreamWriter(check_write(self.options, schema, is_overwrite=overwrite))


def _columns(schema: StructType) -> list[str]:
    """Return the names of the columns that Spark wants; Invalid if one of them is not what a topic has."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from goqueue.errors import Invalid
    from goqueue.spark.columns import schema_of

    names = list(schema.fieldNames())
    if not names:
        # Arrow has no way to say how many rows without columns there are.
        raise Invalid("the schema has no column", hint="name one, for example offset BIGINT")
    ours = schema_of(names)
    for field, wanted in zip(ours, to_arrow_schema(schema, timezone="UTC"), strict=True):
        if wanted.type != field.type:
            raise Invalid(
                f"column {field.name} of a topic is of another type than {schema[field.name].dataType.simpleString()}",
                hint=f"its columns are {_COLUMNS.format(headers=_HEADERS)}",
            )
        if not wanted.nullable:
            raise Invalid(f"column {field.name} cannot be NOT NULL", hint="leave that out of the schema")
    return names
