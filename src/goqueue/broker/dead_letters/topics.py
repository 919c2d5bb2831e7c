"""Where the dead letters of a topic are: in the usual topic, called as it is and `.dlq`, or in one that groups chose.

A topic that was chosen may have letters of many topics. Whoever asks there for those of one gets no others, and whoever
deletes letters has to name the topic itself in which they lie. It may also hold messages that never died, and have
letters of its own elsewhere: then its name means neither. Pipelines send their dead letters wherever they like: what
looks like one is shown, but nothing is deleted or published again only because of what a message says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from goqueue.broker.dead_letters.reading import read_some
from goqueue.broker.topics.private import require_public
from goqueue.errors import Conflict
from goqueue.model.dead_letter_selection import Selection
from goqueue.model.dead_letters import dead_letters_of, is_for_dead_letters, says_why
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.dead_letters.service import DeadLetterService
    from goqueue.broker.topics.open_topic import OpenTopic


class DeadLetterTopic(NamedTuple):
    """A topic with dead letters; those of `source` are meant if letters of other topics may lie there as well."""

    topic: OpenTopic
    source: str | None = None

    def narrow(self, selection: Selection) -> Selection:
        """Return a selection that means nothing of others, unless it names them itself."""
        if self.source is None or selection.source is not None:
            return selection
        return replace(selection, source=self.source)


def find_dead_letters(dead_letters: DeadLetterService, name: str) -> DeadLetterTopic | None:
    """Return where the dead letters of a topic are, or the topic itself if it has some; None if there are none yet.

    UnknownTopic if there is no such topic, Conflict if they are in several ones.
    """
    found = _find_by_name(dead_letters, name)
    if found is None and _begins_with_letter(dead_letters.topics.topic(name)):
        return DeadLetterTopic(dead_letters.topics.topic(name))
    return found


def require_dead_letters(dead_letters: DeadLetterService, name: str) -> DeadLetterTopic:
    """Return where the dead letters of a topic are, by names and settings; Conflict if nowhere, or in several ones."""
    found = _find_by_name(dead_letters, name)
    if found is None:
        hint = "topics for dead letters end in .dlq, or are the dead_letters of a queue group"
        raise Conflict(f"topic {name!r} has no dead letters", hint=hint)
    return found


def chosen_topics(dead_letters: DeadLetterService) -> set[str]:
    """Return the topics that queue groups send their dead letters to, where these are not the usual ones."""
    groups = (group for machine in dead_letters.queues.machines for group in machine.groups.values())
    return {group.settings.dead_letters for group in groups if group.settings.dead_letters}


def _find_by_name(dead_letters: DeadLetterService, name: str) -> DeadLetterTopic | None:
    require_public([name])
    if name in dead_letters.topics.by_name and is_for_dead_letters(name):
        return DeadLetterTopic(dead_letters.topics.topic(name))
    usual = dead_letters_of(name)
    chosen = {
        each for each in _chosen_by_groups(dead_letters, name) if each in dead_letters.topics.by_name and each != usual
    }
    places = [usual] * (usual in dead_letters.topics.by_name) + sorted(chosen)
    if name in dead_letters.topics.by_name and name in chosen_topics(dead_letters):
        # One that is empty has no message that is no letter.
        if not places or _begins_with_letter(dead_letters.topics.topic(name)) is not False:
            return DeadLetterTopic(dead_letters.topics.topic(name))
        hint = f"name {' or '.join(places)}; {name!r} does not begin with a letter: read it as any other topic"
        raise Conflict(f"dead letters of {name!r} are in {', '.join([name, *places])}", hint=hint)
    if len(places) > 1:
        raise Conflict(f"dead letters of {name!r} are in {', '.join(places)}", hint="name one of these")
    if not places:
        dead_letters.topics.topic(name)
        return None
    return DeadLetterTopic(dead_letters.topics.topic(places[0]), name if chosen else None)


def _chosen_by_groups(dead_letters: DeadLetterService, name: str) -> Iterator[str]:
    for machine in dead_letters.queues.machines:
        for group in machine.groups.values():
            if group.settings.dead_letters and any(each.topic == name for each in group.windows):
                yield group.settings.dead_letters


def _begins_with_letter(topic: OpenTopic) -> bool | None:
    """Tell whether what is there first says why it died; None if nothing is there."""
    for partition in topic.partitions:
        if isinstance(partition, Partition):
            start, end = partition.log.start_offset, partition.last_stable_offset
            if records := read_some(partition, start, end, bytes_max=1).records:
                return says_why(records[0].headers)
    return None
