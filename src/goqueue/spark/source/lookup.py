"""Looks up the topics and partitions of a read, with the start and the end of each log. The end is the end of visible
records: for committed reads, it is before the first open transaction. Archived records before the start of a log are
included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, assert_never
from uuid import UUID

from goqueue.client.kafka import FoundOffset, KafkaData, NamedOffset, Topic, TopicPartition
from goqueue.errors import Invalid, OffsetOutOfRange, UnknownPartition, UnknownTopic
from goqueue.spark.archive.lookup import Archives, Pieces, TopicLog
from goqueue.spark.source.option_values import (
    OFFSET_MAX,
    Assigned,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Boundary,
    Matching,
    Named,
)
from goqueue.spark.source.options import ReadOptions

_CONNECT_S_MAX = 5.0


class Bounds(NamedTuple):
    """The first offset in the log of a partition, the end of its visible records, and the archived pieces."""

    start: int
    end: int
    archived: Pieces = ()
    """Archived offsets before the log."""

    @property
    def first(self) -> int:
        """The first offset that can be read."""
        return self.archived[0].start if self.archived else self.start

    def readable_from(self, offset: int) -> int:
        """Return the next readable offset from an offset on; offsets from the start of the log on are returned
        unchanged.
        """
        if offset >= self.start:
            return offset
        return next((max(offset, piece.start) for piece in self.archived if offset < piece.end), self.start)


class SeenTopic(NamedTuple):
    """A topic and its partitions to read."""

    id: UUID
    partitions: Mapping[int, Bounds]


Seen = Mapping[str, SeenTopic]

Reached = Callable[[TopicPartition, UUID], int]
"""The offset from which a partition will be read; 0 if unknown."""


def connect(options: ReadOptions, *, is_patient: bool = False) -> KafkaData:
    """Return a client; one that `is_patient` waits longer for a connection."""
    timeout_s = options.timeout_ms / 1000
    connect_s = timeout_s if is_patient else min(timeout_s, _CONNECT_S_MAX)
    return KafkaData(options.bootstrap, timeout_s=timeout_s, connect_timeout_s=connect_s)


def at_end(place: TopicPartition, topic_id: UUID) -> int:
    """Return the largest offset: nothing that exists already will be read."""
    del place, topic_id
    return OFFSET_MAX


def begins_at(boundary: Boundary) -> Reached:
    """Return what is known of the start of a read without asking the broker."""
    if boundary is NamedOffset.LATEST:
        return at_end
    offsets = boundary.offsets if isinstance(boundary, AtOffsets) else {}
    return lambda place, _: OFFSET_MAX if offsets.get(place) == NamedOffset.LATEST else offsets.get(place, 0)


def look(
    data: KafkaData, options: ReadOptions, archives: Archives | None = None, reached: Reached | None = None
) -> Seen:
    """Return the subscribed topics that exist.

    Archives are read only for partitions whose `reached` offset is before the log, or unknown. Callers that look
    repeatedly pass the same `archives`, which are cached.
    """
    ids: dict[str, UUID] = {}
    places: list[TopicPartition] = []
    for topic in _topics(data, options):
        if isinstance(topic.error, UnknownTopic):
            continue
        if topic.error is not None:
            raise topic.error
        ids[topic.name] = topic.id
        places += [TopicPartition(topic.name, number) for number in _partitions(topic, options)]
    starts = data.offsets(places, NamedOffset.EARLIEST, options.isolation)
    ends = data.offsets(places, NamedOffset.LATEST, options.isolation)
    logs = {
        name: TopicLog(ids[name], {each.partition: starts[each].offset or 0 for each in places if each.topic == name})
        for name in sorted(ids)
    }
    behind = logs if reached is None else {name: _behind(name, log, reached) for name, log in logs.items()}
    archived = (archives or Archives(options)).before(data, behind)
    return {
        name: SeenTopic(
            log.id,
            {
                number: Bounds(start, ends[TopicPartition(name, number)].offset or 0, _of(archived, name, number))
                for number, start in log.starts.items()
            },
        )
        for name, log in logs.items()
    }


def _behind(name: str, log: TopicLog, reached: Reached) -> TopicLog:
    """Return the partitions whose reads may begin before the log."""
    starts = {
        number: start for number, start in log.starts.items() if reached(TopicPartition(name, number), log.id) < start
    }
    return log._replace(starts=starts)


def _of(archived: Mapping[str, Mapping[int, Pieces]], topic: str, partition: int) -> Pieces:
    return archived.get(topic, {}).get(partition, ())


def require_all(seen: Seen, options: ReadOptions) -> None:
    """Raise UnknownTopic if a topic that is subscribed by name does not exist."""
    match options.subscription:
        case Named(names):
            wanted: Iterable[str] = names
        case Assigned(partitions):
            wanted = partitions
        case Matching():
            return
        case _:
            assert_never(options.subscription)
    missing = [repr(name) for name in wanted if name not in seen]
    if missing:
        raise UnknownTopic(
            f"there is no topic {', '.join(missing)}", hint="create it first: reads do not create topics"
        )


def resolve(
    data: KafkaData, options: ReadOptions, boundary: Boundary, seen: Seen, *, name: str, is_end: bool = False
) -> dict[TopicPartition, int]:
    """Resolve a boundary to an offset in each partition; `name` is the option in error messages."""
    bounds = {TopicPartition(topic, each): found for topic in seen for each, found in seen[topic].partitions.items()}
    match boundary:
        case NamedOffset():
            return {place: _place(boundary, each) for place, each in bounds.items()}
        case AtTimestamp(timestamp_ms):
            times = dict.fromkeys(bounds, timestamp_ms)
        case AtTimestamps(times_ms):
            _require_same(times_ms, bounds, name)
            times = dict(times_ms)
        case AtOffsets(offsets):
            _require_same(offsets, bounds, name)
            return {place: _exact(offsets[place], place, bounds[place], name) for place in bounds}
        case _:
            assert_never(boundary)
    found = _at_times(data, options, times, bounds)
    if options.needs_start_record and not is_end:
        _require_records(found, times)
    return {place: _at_record(each, bounds[place], is_end=is_end) for place, each in found.items()}


def _topics(data: KafkaData, options: ReadOptions) -> list[Topic]:
    match options.subscription:
        case Named(names):
            return data.topics(names)
        case Matching(pattern):
            return data.topics_like(pattern)
        case Assigned(partitions):
            return data.topics(partitions)
        case _:
            assert_never(options.subscription)


def _partitions(topic: Topic, options: ReadOptions) -> Iterable[int]:
    if not isinstance(options.subscription, Assigned):
        return range(len(topic.partitions))
    wanted = options.subscription.partitions[topic.name]
    if wanted[-1] >= len(topic.partitions):
        raise UnknownPartition(
            f"topic {topic.name!r} has no partition {wanted[-1]}, it has {len(topic.partitions)}",
            hint="the option assign names it",
        )
    return wanted


def _place(place: int, bounds: Bounds) -> int:
    return bounds.first if place == NamedOffset.EARLIEST else bounds.end


def _at_record(found: FoundOffset, bounds: Bounds, *, is_end: bool) -> int:
    if found.offset is None:
        return bounds.end
    # # The record may be newer than the bounds, where a read ends.
    return min(found.offset, bounds.end) if is_end else found.offset


def _exact(offset: int, place: TopicPartition, bounds: Bounds, name: str) -> int:
    if offset < 0:
        return _place(offset, bounds)
    if offset > bounds.end:
        out_of_range = OffsetOutOfRange(offset, start=bounds.first, end=bounds.end)
        raise Invalid(f"{name}: {place}: {out_of_range}", hint="write -1 for its end")
    return offset


def _at_times(
    data: KafkaData,
    options: ReadOptions,
    times: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, Bounds],
) -> dict[TopicPartition, FoundOffset]:
    found: dict[TopicPartition, FoundOffset] = {}
    for time_ms in sorted(set(times.values())):
        places = [place for place, each in times.items() if each == time_ms]
        found |= data.offsets(places, time_ms, options.isolation)
    archives = Archives(options)
    for place, time_ms in times.items():
        start, _, pieces = bounds[place]
        offset = archives.first_at(place.topic, place.partition, pieces, time_ms, start)
        if offset is not None:
            found[place] = replace(found[place], offset=offset)
    return found


def _require_same(written: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], name: str) -> None:
    missing = [str(place) for place in bounds if place not in written]
    foreign = [str(place) for place in written if place not in bounds]
    mistakes = []
    if missing:
        mistakes.append(f"{', '.join(missing)} is missing")
    if foreign:
        mistakes.append(f"{', '.join(foreign)} is not among what is read")
    if mistakes:
        raise Invalid(f"{name}: {'; '.join(mistakes)}", hint="name exactly the partitions that are read")


def _require_records(found: Mapping[TopicPartition, FoundOffset], times: Mapping[TopicPartition, int]) -> None:
    without = [f"{place} at {times[place]}" for place, each in found.items() if each.offset is None]
    if without:
        raise Invalid(
            f"no record has that time or a later one: {', '.join(without)}",
            hint="set startingOffsetsByTimestampStrategy=latest to begin with the next record",
        )
