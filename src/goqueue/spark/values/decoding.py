"""The description of how to decode values: small, picklable, and without imports of Arrow or Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FormatName(StrEnum):
    """The format of values."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class Prefix(StrEnum):
    """The prefix of each value."""

    NONE = "none"
    CONFLUENT = "confluent"


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to read values.

    The schema is a list of columns for JSON, a schema in JSON for Avro, and a set of descriptors for Protobuf, which
    also needs the full name of the message.
    """

    format: FormatName
    schema: str | bytes
    message: str = ""
    prefix: Prefix = Prefix.NONE
