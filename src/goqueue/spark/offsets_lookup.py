"""What the broker has at this moment, for whoever plans a read: topics, their partitions, where each starts and ends.

The end is that of what is visible: with committed reads, open transactions lie behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, assert_never
from uuid import UUID

from goqueue.client.kafka import FoundOffset, KafkaData, Place, Topic, TopicPartition
from goqueue.errors import Invalid, OffsetOutOfRange, UnknownPartition, UnknownTopic
from goqueue.spark.options import ReadOptions
from goqueue.spark.options_values import Assigned, AtOffsets, AtTime, AtTimes, Boundary, Matching, Named

_CONNECT_S_MAX = 5.0


class Bounds(NamedTuple):
    """The first offset that a partition still has, and the one behind the last visible one."""

    start: int
    end: int


class SeenTopic(NamedTuple):
    """A topic as it is now, with the partitions that are to be read."""

    id: UUID
    partitions: Mapping[int, Bounds]


Seen = Mapping[str, SeenTopic]


def connect(options: ReadOptions, *, is_patient: bool = False) -> KafkaData:
    """Return a client; somebody who `is_patient` waits longer for a broker that is not there."""
    timeout_s = options.timeout_ms / 1000
    connect_s = timeout_s if is_patient else min(timeout_s, _CONNECT_S_MAX)
    return KafkaData(options.bootstrap, timeout_s=timeout_s, connect_timeout_s=connect_s)


def look(data: KafkaData, options: ReadOptions) -> Seen:
    """Return what is subscribed and exists; a named topic that does not exist is left out."""
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
    return {
        name: SeenTopic(
            ids[name],
            {
                place.partition: Bounds(starts[place].offset or 0, ends[place].offset or 0)
                for place in places
                if place.topic == name
            },
        )
        for name in sorted(ids)
    }


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
        case AtTime(timestamp_ms):
            times = dict.fromkeys(bounds, timestamp_ms)
        case AtTimes(times_ms):
            _require_same(times_ms, bounds, name)
            times = dict(times_ms)
        case AtOffsets(offsets):
            _require_same(offsets, bounds, name)
            return {place: _exact(offsets[place], place, bounds[place], name) for place in bounds}
        case _:
            assert_never(boundary)
    found = _at_times(data, options, times)
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
    return bounds.start if place == Place.EARLIEST else bounds.end


def _at_record(found: FoundOffset, bounds: Bounds, *, is_end: bool) -> int:
    if found.offset is None:
        return bounds.end
    # The record may have come after the bounds were looked up, and a read ends at these.
    return min(found.offset, bounds.end) if is_end else found.offset


def _exact(offset: int, place: TopicPartition, bounds: Bounds, name: str) -> int:
    if offset < 0:
        return _place(offset, bounds)
    if offset > bounds.end:
        out_of_range = OffsetOutOfRange(offset, start=bounds.start, end=bounds.end)
        raise Invalid(f"{name}: {place}: {out_of_range}", hint="write -1 for its end")
    return offset


def _at_times(
    data: KafkaData, options: ReadOptions, times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, FoundOffset]:
    found: dict[TopicPartition, FoundOffset] = {}
    for time_ms in sorted(set(times.values())):
        places = [place for place, each in times.items() if each == time_ms]
        found |= data.offsets(places, time_ms, options.isolation)
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
