"""What the broker has at this moment, for whoever plans a read: topics, their partitions, where each starts and ends.

The end is that of what is visible: with committed reads, open transactions lie behind it. What lies before the start of
a log and is in the archive of its topic is there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, assert_never
from uuid import UUID

from goqueue.client.kafka import FoundOffset, KafkaData, Place, Topic, TopicPartition
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
    """The first offset that the log of a partition still has, the one behind the last visible one, and the archive."""

    start: int
    end: int
    archived: Pieces = ()
    """What lies before the log and can be read nevertheless."""

    @property
    def first(self) -> int:
        """The first offset that can be read."""
        return self.archived[0].start if self.archived else self.start

    def readable_from(self, offset: int) -> int:
        """Return an offset itself if it can be read, or the next one that can; behind the start of the log, itself."""
        if offset >= self.start:
            return offset
        return next((max(offset, piece.start) for piece in self.archived if offset < piece.end), self.start)


class SeenTopic(NamedTuple):
    """A topic as it is now, with the partitions that are to be read."""

    id: UUID
    partitions: Mapping[int, Bounds]


Seen = Mapping[str, SeenTopic]

Reached = Callable[[TopicPartition, UUID], int]
"""From which offset on a partition of a topic will be read; 0 if that is not known."""


def connect(options: ReadOptions, *, is_patient: bool = False) -> KafkaData:
    """Return a client; somebody who `is_patient` waits longer for a broker that is not there."""
    timeout_s = options.timeout_ms / 1000
    connect_s = timeout_s if is_patient else min(timeout_s, _CONNECT_S_MAX)
    return KafkaData(options.bootstrap, timeout_s=timeout_s, connect_timeout_s=connect_s)


def at_end(place: TopicPartition, topic_id: UUID) -> int:
    """Say that nothing will be read that is there already."""
    del place, topic_id
    return OFFSET_MAX


def begins_at(boundary: Boundary) -> Reached:
    """Return what is known of where a read begins, before anybody was asked."""
    if boundary is Place.LATEST:
        return at_end
    offsets = boundary.offsets if isinstance(boundary, AtOffsets) else {}
    return lambda place, _: OFFSET_MAX if offsets.get(place) == Place.LATEST else offsets.get(place, 0)


def look(
    data: KafkaData, options: ReadOptions, archives: Archives | None = None, reached: Reached | None = None
) -> Seen:
    """Return what is subscribed and exists; a named topic that does not exist is left out.

    Archives are looked at only for those who have `reached` less than what the logs have, or do not say. Whoever looks
    more than once keeps the `archives`.
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
    starts = data.offsets(places, Place.EARLIEST, options.isolation)
    ends = data.offsets(places, Place.LATEST, options.isolation)
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
    """Return the partitions in which somebody may read what lies before the log."""
    starts = {
        number: start for number, start in log.starts.items() if reached(TopicPartition(name, number), log.id) < start
    }
    return log._replace(starts=starts)


def _of(archived: Mapping[str, Mapping[int, Pieces]], topic: str, partition: int) -> Pieces:
    return archived.get(topic, {}).get(partition, ())


def require_all(seen: Seen, options: ReadOptions) -> None:
    """Raise UnknownTopic if a topic that is subscribed by its name does not exist, or no topic matches."""
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
        raise UnknownTopic(f"there is no topic {', '.join(missing)}", hint="make it first; reading makes none")


def resolve(
    data: KafkaData, options: ReadOptions, boundary: Boundary, seen: Seen, *, name: str, is_end: bool = False
) -> dict[TopicPartition, int]:
    """Return where a boundary lies in each partition; `name` is the option that errors speak of."""
    bounds = {TopicPartition(topic, each): found for topic in seen for each, found in seen[topic].partitions.items()}
    match boundary:
        case Place():
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
    return bounds.first if place == Place.EARLIEST else bounds.end


def _at_record(found: FoundOffset, bounds: Bounds, *, is_end: bool) -> int:
    if found.offset is None:
        return bounds.end
    # The record may have come after the bounds were looked up, and a read ends at these.
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
        mistakes.append(f"nothing is said of {', '.join(missing)}")
    if foreign:
        mistakes.append(f"{', '.join(foreign)} is not among what is read")
    if mistakes:
        raise Invalid(f"{name}: {'; '.join(mistakes)}", hint="name exactly the partitions that are read")


def _require_records(found: Mapping[TopicPartition, FoundOffset], times: Mapping[TopicPartition, int]) -> None:
    without = [f"{place} at {times[place]}" for place, each in found.items() if each.offset is None]
    if without:
        raise Invalid(
            f"no record is that young or younger: {', '.join(without)}",
            hint="set startingOffsetsByTimestampStrategy=latest to begin with what comes next",
        )
