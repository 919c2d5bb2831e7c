"""Decides what a stream reads next and what it has lost, from its position and the broker's topics. Pure.

| the broker shows                                        | the stream                                                |
|---------------------------------------------------------|-----------------------------------------------------------|
| more records                                            | goes on, as far as the limit lets it                      |
| a new partition of a topic that it reads                | joins it at offset 0                                      |
| a partition that was not assigned before                | joins it at its first record                              |
| a topic that it has not read yet                        | joins it at its first record                              |
| records removed that it has not read, and archived      | reads them from the archive                               |
| records removed that it has not read                    | loss; otherwise goes on with the first that is left       |
| a log that ends before the position                     | loss; otherwise goes on at that end                       |
| no such topic or partition any more                     | loss; otherwise goes on without it                        |
| the same topic or partition again                       | goes on in it where it was                                |
| another topic of the same name                          | loss; otherwise joins it at its first record              |

A loss ends the query, unless `failOnDataLoss` is false. The positions of missing topics are kept, since they may be
missing for a moment only, until another topic of the name appears. Joining a partition adds its position to the
checkpoint without reading rows, so a range of rows always lies between two stored positions.

A stream with an end, which its position has, reads nothing after it, joins no other partitions, and has no losses once
it has reached it. A log that ends before the end is a loss, too. Such a stream counts lost records as read, so that it
reaches its end: it waits for no topic to come back, and does not read another one of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from goqueue.client.kafka import TopicPartition
from goqueue.spark.archive.spans import OffsetSpan, missing, union
from goqueue.spark.source.lookup import Bounds, Seen, SeenTopic
from goqueue.spark.source.losses import Loss, cut_off, deleted, left, recreated, removed
from goqueue.spark.source.plan import Range, share
from goqueue.spark.source.positions import StreamPositions, TopicPosition


class StreamStep(NamedTuple):
    """The next position of the stream, and its losses."""

    end: StreamPositions
    losses: tuple[Loss, ...]
    backlog: int
    """The number of offsets to read, without the limit."""


class Readable(NamedTuple):
    """The readable ranges of a batch, and its losses."""

    ranges: tuple[Range, ...]
    losses: tuple[Loss, ...]


def next_step(
    start: StreamPositions,
    seen: Seen,
    *,
    limit: int | None = None,
    target: StreamPositions | None = None,
    is_assigned: bool = False,
) -> StreamStep:
    """Decide how far to read; `target` is the end of a run that reads only what existed when it began.

    The end of a position overrides it. A stream that `is_assigned` reads chosen partitions: a partition new to it may
    be an old one.
    """
    target = start.end or target
    topics, losses = _at_rest(start, seen)
    seen = {name: topic for name, topic in seen.items() if name not in topics}
    standing: dict[str, dict[int, int]] = {}
    for name, topic in sorted(seen.items()):
        position = start.topics.get(name)
        if position is None and target is not None and name not in target.topics:
            continue
        standing[name], lost = _standing(name, topic, position, _ends(name, start), is_assigned=is_assigned)
        losses += lost
    backlog = {
        TopicPartition(name, number): _goal(name, number, seen[name], target) - offset
        for name, offsets in standing.items()
        if _is_same(start.topics.get(name), seen[name])
        for number, offset in offsets.items()
        if number in start.topics[name].offsets
    }
    waiting = {place: size for place, size in backlog.items() if size > 0}
    for place, count in (waiting if limit is None else share(waiting, limit)).items():
        standing[place.topic][place.partition] += count
    for name, offsets in standing.items():
        position, ends = start.topics.get(name), _ends(name, start)
        topics[name] = TopicPosition(
            seen[name].id, _unseen(position, seen[name], ends) | _without_cut(offsets, position, seen[name], ends)
        )
    return StreamStep(StreamPositions(topics, start.end), tuple(losses), sum(waiting.values()))


def readable(start: StreamPositions, end: StreamPositions, seen: Seen) -> Readable:
    """Return the ranges between two positions that can still be read."""
    ranges: list[Range] = []
    losses: list[Loss] = []
    for place, last in end.items():
        topic_end, topic_start = end.topics[place.topic], start.topics.get(place.topic)
        if topic_start is None or topic_start.id != topic_end.id:
            continue
        first = topic_start.offsets.get(place.partition, last)
        if first >= last:
            continue
        topic = seen.get(place.topic)
        if topic is None or topic.id != topic_end.id:
            is_new_read = end.end is None
            losses.append(deleted(place.topic) if topic is None else recreated(place.topic, is_new_read=is_new_read))
            continue
        wanted = Range(place.topic, topic.id, place.partition, first, last)
        is_end = end.end is not None and end.end.reached(place, topic.id) == last
        available, lost = within(wanted, topic.partitions.get(place.partition), is_end=is_end)
        losses += lost
        ranges += available
    return Readable(tuple(ranges), tuple(dict.fromkeys(losses)))


def within(wanted: Range, bounds: Bounds | None, *, is_end: bool = False) -> tuple[tuple[Range, ...], tuple[Loss, ...]]:
    """Return the readable parts of a range, from an archive or the log, and its losses.

    If it reaches up to the end of a stream, `is_end` has errors say so.
    """
    place = TopicPartition(wanted.topic, wanted.partition)
    if bounds is None:
        return (), (left(place),)
    pieces = [each for each in bounds.archived if each.start < wanted.end and wanted.start < each.end]
    before = OffsetSpan(wanted.start, min(wanted.end, bounds.start))
    losses = [
        removed(place, hole.start, hole.end, bounds.start, bounds.readable_from(hole.start))
        for hole in missing(union(OffsetSpan(piece.start, piece.end) for piece in pieces), before)
    ]
    if wanted.end > bounds.end:
        losses.append(cut_off(place, wanted.end, bounds.end, is_end=is_end))
    parts = [piece.cut(wanted.start, wanted.end) for piece in pieces]
    ranges = [wanted._replace(start=part.start, end=part.end, archived=part) for part in parts]
    ranges.append(wanted._replace(start=max(wanted.start, bounds.start), end=min(wanted.end, bounds.end)))
    return tuple(each for each in ranges if each.size > 0), tuple(losses)


def ends_of(seen: Seen) -> StreamPositions:
    """Return the ends of all logs."""
    return StreamPositions(
        {
            name: TopicPosition(topic.id, {number: bounds.end for number, bounds in topic.partitions.items()})
            for name, topic in seen.items()
        }
    )


def known(positions: StreamPositions, seen: Seen) -> StreamPositions:
    """Return the positions in topics that exist."""
    return StreamPositions(
        {
            name: TopicPosition(
                position.id,
                {number: offset for number, offset in position.offsets.items() if number in seen[name].partitions},
            )
            for name, position in positions.topics.items()
            if name in seen and seen[name].id == position.id
        }
    )


def positions_at(offsets: Mapping[TopicPartition, int], seen: Seen) -> StreamPositions:
    """Return offsets as positions in the existing topics."""
    return StreamPositions(
        {
            name: TopicPosition(
                topic.id, {number: offsets[TopicPartition(name, number)] for number in topic.partitions}
            )
            for name, topic in seen.items()
        }
    )


def _ends(name: str, start: StreamPositions) -> Mapping[int, int] | None:
    """Return the end offsets of a topic, whose other partitions are not read; None for a stream without an end."""
    if start.end is None:
        return None
    end, position = start.end.topics.get(name), start.topics.get(name)
    return {} if end is None or position is None or end.id != position.id else end.offsets


def _is_done(name: str, start: StreamPositions) -> bool:
    """Return whether a stream with an end has read a topic up to its end."""
    ends, offsets = _ends(name, start), start.topics[name].offsets
    return ends is not None and all(offsets.get(number, 0) >= end for number, end in ends.items())


def _at_rest(start: StreamPositions, seen: Seen) -> tuple[dict[str, TopicPosition], list[Loss]]:
    """Return the positions of topics that the stream does not read further: read to the end, or lost. A stream without
    an end continues in another topic of the same name; a stream with an end counts lost topics as read.
    """
    topics: dict[str, TopicPosition] = {}
    losses: list[Loss] = []
    for name, position in sorted(start.topics.items()):
        ends = _ends(name, start)
        if _is_done(name, start):
            topics[name] = position
        elif name not in seen or (ends is not None and seen[name].id != position.id):
            losses.append(deleted(name) if name not in seen else recreated(name, is_new_read=False))
            numbers = {*position.offsets, *(ends or {})}
            topics[name] = TopicPosition(
                position.id, {number: _through(number, position.offsets.get(number, 0), ends) for number in numbers}
            )
    return topics, losses


def _through(number: int, offset: int, ends: Mapping[int, int] | None) -> int:
    """Return the position in a partition whose rest is lost: its end, if the stream has one."""
    return offset if ends is None else max(offset, ends.get(number, 0))


def _without_cut(
    offsets: Mapping[int, int], position: TopicPosition | None, topic: SeenTopic, ends: Mapping[int, int] | None
) -> dict[int, int]:
    """Return positions in which partitions without further records count as read to the end."""
    if position is None:
        return dict(offsets)
    return {
        number: _through(number, offset, ends)
        if number in position.offsets and offset >= topic.partitions[number].end
        else offset
        for number, offset in offsets.items()
    }


def _is_same(position: TopicPosition | None, topic: SeenTopic) -> bool:
    return position is not None and position.id == topic.id


def _unseen(position: TopicPosition | None, topic: SeenTopic, ends: Mapping[int, int] | None) -> dict[int, int]:
    """Return the positions of missing partitions of a topic."""
    if position is None or position.id != topic.id:
        return {}
    return {
        number: _through(number, offset, ends)
        for number, offset in position.offsets.items()
        if number not in topic.partitions
    }


def _standing(
    name: str, topic: SeenTopic, position: TopicPosition | None, ends: Mapping[int, int] | None, *, is_assigned: bool
) -> tuple[dict[int, int], list[Loss]]:
    """Return the positions in a topic before the next batch, and the losses there."""
    if position is None or position.id != topic.id:
        losses = [] if position is None else [recreated(name)]
        return {number: bounds.first for number, bounds in topic.partitions.items()}, losses
    offsets: dict[int, int] = {}
    lost: list[Loss] = []
    for number, bounds in topic.partitions.items():
        place = TopicPartition(name, number)
        offset = position.offsets.get(number, bounds.first if is_assigned else 0)
        end = None if ends is None else ends.get(number, 0)
        if end is not None and offset >= end:
            offsets |= {number: offset} if number in position.offsets else {}
            continue
        offsets[number] = offset
        readable = bounds.readable_from(offset)
        if number in position.offsets and offset < readable:
            offsets[number] = readable if end is None else min(end, readable)
            lost.append(removed(place, offset, offsets[number], bounds.start, readable))
        elif offset > bounds.end:
            offsets[number] = bounds.end
        if max(offset, end or 0) > bounds.end:
            lost.append(cut_off(place, max(offset, end or 0), bounds.end, is_end=end is not None))
    lost += [
        left(TopicPartition(name, number))
        for number, offset in position.offsets.items()
        if number not in topic.partitions and (ends is None or offset < ends.get(number, 0))
    ]
    return offsets, lost


def _goal(name: str, number: int, topic: SeenTopic, target: StreamPositions | None) -> int:
    end = topic.partitions[number].end
    if target is None:
        return end
    aimed = target.topics.get(name)
    if aimed is None or aimed.id != topic.id:
        return 0
    return min(end, aimed.offsets.get(number, 0))
