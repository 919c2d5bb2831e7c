"""Purges: all dead letters of a topic are deleted, and nothing else.

In a topic whose name ends in `.dlq` everything is a letter. One that a queue group has chosen may hold messages of
others: it is purged only if all that it holds says why it died, and only as far as that was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.broker.dead_letters.reading import read_some
from goqueue.broker.dead_letters.topics import require_dead_letters
from goqueue.broker.topics.admin import delete_records, require_deletes
from goqueue.errors import Conflict, RedriveRunning, UnknownTopic
from goqueue.model.dead_letters import is_for_dead_letters, says_why
from goqueue.runtime.waiters import give_way

if TYPE_CHECKING:
    from goqueue.broker.dead_letters.service import DeadLetterService
    from goqueue.broker.topics.open_topic import OpenTopic

LOOKED_AT_MAX = 100_000
"""How many letters may be where each of them has to say that it is one."""

_HINT = "topics whose names end in .dlq are purged whatever they hold; this one can be deleted as a whole"


@operation("dead_letters.purge", on="topic")
async def purge_dead_letters(
    dead_letters: DeadLetterService,
    caller: Caller,
    name: str,
    *,
    is_dry: bool = False,
) -> tuple[str, int]:
    """Delete all dead letters of a topic; return the topic where they were, and up to how many went, durably.

    If it `is_dry`, nothing is deleted, and those are counted that would be. RedriveRunning if a redrive is under way
    there, Conflict if letters of other topics may lie there as well, or messages that are no letters, PolicyViolation
    if the topic is compacted.
    """
    topic, source = require_dead_letters(dead_letters, name)
    if source is not None:
        message = f"dead letters of {name!r} are in {topic.topic.name!r}, where those of other topics may be as well"
        raise Conflict(message, hint=f"name {topic.topic.name!r} itself to delete all that are there")
    require_deletes(topic)
    ends = await _ends(topic)
    job = dead_letters.redrives.of_topic(topic.topic.id)
    if job is not None:
        raise RedriveRunning(f"redrive {job.id} of {job.topic} is {job.state}", hint="wait for its end, or cancel it")
    count = 0
    for index, end in enumerate(ends):
        start = topic.partition(index).log.start_offset
        count += max((end if is_dry else await _delete(dead_letters, caller, topic, index, end)) - start, 0)
    return topic.topic.name, count


async def _delete(dead_letters: DeadLetterService, caller: Caller, topic: OpenTopic, index: int, end: int) -> int:
    """Delete the letters of a partition before an offset; return where it begins now."""
    if topic.topic.id not in dead_letters.topics.by_id:
        # Another one may have its name by now, and what it holds was not looked at.
        raise UnknownTopic(f"topic {topic.topic.name!r} was deleted meanwhile")
    return await delete_records(dead_letters.topics, caller, topic.topic.name, index, end)


async def _ends(topic: OpenTopic) -> Sequence[int]:
    """Return where the letters of each partition end; Conflict if there are messages that may be none."""
    partitions = [topic.partition(index) for index in range(len(topic.partitions))]
    if is_for_dead_letters(topic.topic.name):
        return [partition.high_watermark for partition in partitions]
    ends = [partition.last_stable_offset for partition in partitions]
    looked_at = 0
    for partition, end in zip(partitions, ends, strict=True):
        position = partition.log.start_offset
        while position < end:
            piece = read_some(partition, position, end)
            unlike = next((each.offset for each in piece.records if not says_why(each.headers)), None)
            if unlike is not None or piece.unreadable:
                where = f"{topic.topic.name}-{partition.index}:{position if unlike is None else unlike}"
                raise Conflict(f"the message at {where} does not say why it died, so it may be no letter", hint=_HINT)
            looked_at += len(piece.records)
            if looked_at > LOOKED_AT_MAX:
                message = f"{topic.topic.name!r} holds more than {LOOKED_AT_MAX:,} messages"
                raise Conflict(f"{message}, too many to see that all of them are letters", hint=_HINT)
            position = piece.reached
            await give_way()
    return ends
