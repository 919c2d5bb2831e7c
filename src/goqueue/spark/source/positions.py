"""The position of a stream, as Spark's checkpoint stores it:

    {"source": "goqueue", "version": 1,
     "topics": {"orders": {"id": "6b1f...", "offsets": {"0": 23, "1": 5}}},
     "end": {"orders": {"id": "6b1f...", "offsets": {"0": 90, "1": 80}}}}

An offset is the next one to read. The id distinguishes a topic from a later topic of the same name. Only a stream with
an end has `end`, the offsets at which it stops (exclusive). Spark compares these documents as text, so topics and
partitions are written in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec

from goqueue.client.kafka import TopicPartition
from goqueue.errors import Conflict
from goqueue.model.units import quoted

_SOURCE = "goqueue"
_VERSION = 1


class ForeignCheckpoint(Conflict):
    """The checkpoint was written by another kind of query, or by an unknown version."""

    code = "foreign_checkpoint"


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """The next offset of each partition of a topic."""

    id: UUID
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class StreamPositions:
    """The position in each topic, and the end of the stream, if it has one."""

    topics: Mapping[str, TopicPosition] = field(default_factory=dict)
    end: StreamPositions | None = None

    def items(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield each partition with its next offset, in order."""
        for topic in sorted(self.topics):
            for partition, offset in sorted(self.topics[topic].offsets.items()):
                yield TopicPartition(topic, partition), offset

    def reached(self, place: TopicPartition, topic_id: UUID) -> int:
        """Return the next offset of a partition; 0 if the topic has another id, or was not read yet."""
        topic = self.topics.get(place.topic)
        return 0 if topic is None or topic.id != topic_id else topic.offsets.get(place.partition, 0)

    def to_json(self) -> dict[str, Any]:
        """Return the document for the checkpoint."""
        end = {} if self.end is None else {"end": _written(self.end.topics)}
        return {"source": _SOURCE, "version": _VERSION, "topics": _written(self.topics), **end}


def _written(topics: Mapping[str, TopicPosition]) -> dict[str, Any]:
    return {
        name: {
            "id": str(topics[name].id),
            "offsets": {str(number): offset for number, offset in sorted(topics[name].offsets.items())},
        }
        for name in sorted(topics)
    }


class _Topic(msgspec.Struct, forbid_unknown_fields=True):
    id: UUID
    offsets: dict[int, int]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    version: int
    topics: dict[str, _Topic]
    end: dict[str, _Topic] | None = None


def read_positions(document: object) -> StreamPositions:
    """Parse a document of the checkpoint; ForeignCheckpoint if another source or version wrote it."""
    hint = "give every query a checkpointLocation of its own"
    if not isinstance(document, dict) or document.get("source") != _SOURCE:
        raise ForeignCheckpoint(
            f"the checkpoint belongs to a query over another source: it holds {quoted(document)}", hint=hint
        )
    if document.get("version") != _VERSION:
        raise ForeignCheckpoint(
            f"the checkpoint is of version {quoted(document.get('version'))}, and this release knows {_VERSION}",
            hint="use the release that wrote it, or begin with a new checkpointLocation",
        )
    try:
        found = msgspec.convert(document, _Document, str_keys=True)
    except msgspec.ValidationError as error:
        raise ForeignCheckpoint(f"the checkpoint cannot be read: {error}", hint=hint) from None
    return StreamPositions(_read(found.topics), None if found.end is None else StreamPositions(_read(found.end)))


def _read(topics: Mapping[str, _Topic]) -> dict[str, TopicPosition]:
    return {name: TopicPosition(each.id, each.offsets) for name, each in sorted(topics.items())}
