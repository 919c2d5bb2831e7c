"""The columns of a topic's rows, as Arrow types.

| column        | Arrow type                               | null                                                   |
|---------------|------------------------------------------|--------------------------------------------------------|
| key, value    | binary                                   | as the producer wrote it                               |
| headers       | list of struct of key string, value binary | if there are none, as in Spark's own Kafka source    |
| topic         | string                                   | never                                                  |
| partition     | int32                                    | never                                                  |
| offset        | int64                                    | never                                                  |
| timestamp     | timestamp[us, UTC]                       | if the producer set none                               |
| timestampType | int32: 0 the producer's, 1 the broker's  | never                                                  |
| priority      | int32                                    | never: messages that say nothing have the middle one   |
| trace_id      | string of 32 hex digits                  | if the message carries no well-formed trace context    |
| schema_id     | int32                                    | if the message names no schema                         |

Spark refuses batches whose schema differs from the expected one, so the types, their order and even the names inside
the list are exactly those that pyspark derives from its own schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from goqueue.errors import Invalid

PRIORITY_HEADER: Final = "goqueue-priority"
TRACE_HEADER: Final = "traceparent"
SCHEMA_ID_HEADER: Final = "schema-id"

PRIORITY_DEFAULT: Final = 2

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.field("element", HEADER_TYPE))),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("priority", pa.int32()),
        pa.field("trace_id", pa.string()),
        pa.field("schema_id", pa.int32()),
    ]
)

FROM_HEADERS: Final = frozenset({"headers", "priority", "trace_id", "schema_id"})


def schema_of(names: Sequence[str]) -> pa.Schema:
    """Return the schema of the named columns, in their order; Invalid if there is no such column."""
    unknown = [name for name in names if name not in SCHEMA.names]
    if unknown:
        raise Invalid(
            f"a topic has no column {', '.join(map(repr, unknown))}", hint=f"its columns are {', '.join(SCHEMA.names)}"
        )
    return pa.schema([SCHEMA.field(name) for name in names])
