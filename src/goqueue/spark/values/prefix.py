"""What a serializer puts in front of a value: which schema it was written with.

| bytes | what it is                                                                   |
|-------|------------------------------------------------------------------------------|
| 1     | 0, the magic byte                                                            |
| 4     | the id of the schema in a registry, big-endian                               |
| ...   | only Protobuf: which message of the schema it is, see below                  |

A message is named by its number at each level, as zigzag varints: how many numbers, then these. A lone 0 stands for
`[0]`, the first message.

The id is not looked at: the value has to be of the schema that the reader was given.
"""

from __future__ import annotations

from typing import Final

from goqueue.spark.values.avro_read import read_long
from goqueue.spark.values.format import BadValue

PREFIX_BYTES: Final = 5
_INDEXES_MAX: Final = 64


def skip_schema_id(value: bytes) -> bytes:
    """Return what comes behind magic byte and id."""
    if len(value) < PREFIX_BYTES:
        raise BadValue(f"{len(value)} bytes are too few for the prefix confluent")
    if value[0] != 0:
        raise BadValue(f"it begins with byte {value[0]:02x}, not with 00 as the prefix confluent does")
    return value[PREFIX_BYTES:]


def skip_message_indexes(value: bytes, wanted: tuple[int, ...]) -> bytes:
    """Return what comes behind the numbers of the message, which have to be the wanted ones."""
    found: list[int] = []
    try:
        count, position = read_long(value, 0)
        if not 0 <= count <= _INDEXES_MAX:
            raise BadValue(f"its prefix names a message by {count} numbers")
        for _ in range(count):
            index, position = read_long(value, position)
            found.append(index)
    except IndexError:
        raise BadValue("it ends within the prefix confluent") from None
    if (tuple(found) or (0,)) != wanted:
        told = ", ".join(map(str, found or [0]))
        raise BadValue(f"its prefix says that it is message [{told}] of its schema, not {list(wanted)}")
    return value[position:]
