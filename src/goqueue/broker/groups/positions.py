"""How far members of groups have been given messages by `group_poll`. Volatile: what must not be lost is committed.

A position is where a member's next poll goes on in a partition. It begins at the committed offset of the group when the
member polls the partition for the first time, and is forgotten as soon as the member has given the partition back, or
joins again: then it begins anew.

Polls of a member are numbered. A member that says which one it has seen last gets the messages behind that one, so a
reply that was lost on its way costs nothing: the next poll brings its messages again. Each reply tells the positions
that the member does not know from the ones before, also of partitions without messages: so a member knows where it is
when the broker has forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from goqueue.errors import MalformedRequest, OffsetOutOfRange
from goqueue.machines.groups.consumer.values import ConsumerMember
from goqueue.model.topic import TopicPartition

_PRUNE_ABOVE = 64


class Position(NamedTuple):
    """The offset to go on from, in the topic that had its name then."""

    topic_id: UUID
    offset: int


@dataclass(slots=True, eq=False)
class MemberPositions:
    """The positions of one member.

    `before` is where they were when its latest poll began, `committed` what is committed of them as far as is known
    here. `turn` counts the polls that have begun; a poll whose turn is over has to end without touching anything.
    `watched` are the partitions that the latest poll looks at. `known_from` is the number of the last poll of which
    nothing is known here: all before that was forgotten, or has never been. `astray` is where there is nothing to go
    on at: told by the next reply, and again if that was lost.
    """

    number: int = 0
    now: dict[TopicPartition, Position] = field(default_factory=dict)
    before: dict[TopicPartition, Position] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    turn: int = 0
    watched: frozenset[TopicPartition] = frozenset()
    end_wait: Callable[[], None] | None = None
    known_from: int = 0
    astray: dict[TopicPartition, OffsetOutOfRange] = field(default_factory=dict)
    _heard: dict[TopicPartition, int] = field(default_factory=dict)
    _telling: dict[TopicPartition, int] = field(default_factory=dict)
    _order: dict[TopicPartition, None] = field(default_factory=dict)

    def begin(self, seen: int | None) -> int:
        """Begin a poll of a member that has seen the poll of that number, or all of them; return whose turn it is."""
        if seen is None or seen != self.number - 1:
            self.astray = {}
        if seen is not None:
            self._go_back_to(seen)
        self._heard |= self._telling
        self._telling = {}
        self.before = dict(self.now)
        return self.interrupt()

    def _go_back_to(self, seen: int) -> None:
        if self.number == 0:
            # Nothing is known here of polls before the broker was started, and of those before the member joined.
            self.number = self.known_from = seen
        if seen == self.number - 1:
            self.now = {each: self.before.get(each, position) for each, position in self.now.items()}
            self.number = seen
            self._telling = {}
        elif seen != self.number:
            raise MalformedRequest(
                f"the latest poll of this member is number {self.number}, and not {seen}",
                hint=f"after is {self.number}, or {max(self.number - 1, 0)} if its reply was lost",
            )

    def tell(self) -> dict[TopicPartition, int]:
        """End a poll with a reply; return the positions that the member has not heard of."""
        self.number += 1
        self._telling = {each: at.offset for each, at in self.now.items() if self._heard.get(each) != at.offset}
        return dict(self._telling)

    def interrupt(self) -> int:
        """End the poll that waits, if one does; return whose turn it is now."""
        self.turn += 1
        self.wake()
        return self.turn

    def wake(self) -> None:
        """Let the poll that waits, if one does, look again."""
        if self.end_wait is not None:
            self.end_wait()
            self.end_wait = None

    def keep(self, member: ConsumerMember) -> None:
        """Forget the positions of all partitions that the member has given back, or never had."""
        held = member.assigned | member.revoking
        for each in [each for each in self.now if each not in held]:
            self.forget(each)

    def forget(self, partition: TopicPartition) -> None:
        """Forget one position."""
        for table in (self.now, self.before, self.committed, self._heard, self._telling):
            table.pop(partition, None)
        self.astray.pop(partition, None)

    def find(self, partition: TopicPartition, topic_id: UUID) -> int | None:
        """Return where to go on in a partition; None if that is not known, or was in another topic of its name."""
        position = self.now.get(partition)
        if position is None or position.topic_id != topic_id:
            return None
        return position.offset

    def start(self, partition: TopicPartition, position: Position, *, is_committed: bool) -> None:
        """Begin a partition at a position, or begin it anew."""
        self.now[partition] = self.before[partition] = position
        self._heard.pop(partition, None)
        self.astray.pop(partition, None)
        if is_committed:
            self.committed[partition] = position.offset
        else:
            self.committed.pop(partition, None)

    def move(self, partition: TopicPartition, offset: int) -> None:
        """Go on behind what was read."""
        self.now[partition] = self.now[partition]._replace(offset=offset)

    def uncommitted(self) -> dict[TopicPartition, int]:
        """Return the positions that are not committed, as far as is known here."""
        return {each: offset for each, (_, offset) in self.now.items() if self.committed.get(each) != offset}

    def in_turn(self, assigned: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return partitions in the order in which they are served: those that were served last come last."""
        wanted = set(assigned)
        order = [each for each in self._order if each in wanted]
        self._order = dict.fromkeys([*order, *sorted(wanted.difference(order))])
        return list(self._order)

    def served(self, partitions: Iterable[TopicPartition]) -> None:
        """Take note of the partitions that messages came from."""
        for each in partitions:
            self._order.pop(each, None)
            self._order[each] = None


class Positions:
    """The positions of all members that poll, by group and member id."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str], MemberPositions] = {}
        self._prune_above = _PRUNE_ABOVE

    def __len__(self) -> int:
        return len(self._members)

    def of(self, group: str, member_id: str, is_member: Callable[[str, str], bool]) -> MemberPositions:
        """Return the positions of a member; now and then those that are no member any more are forgotten."""
        found = self._members.get((group, member_id))
        if found is None:
            if len(self._members) >= self._prune_above:
                self._members = {key: each for key, each in self._members.items() if is_member(*key)}
                self._prune_above = max(_PRUNE_ABOVE, 2 * len(self._members))
            found = self._members[group, member_id] = MemberPositions()
        return found

    def keep(self, group: str, member: ConsumerMember) -> None:
        """Forget a member's positions in partitions that it has given back; if it has others now, it polls those."""
        found = self._members.get((group, member.id))
        if found is not None:
            found.keep(member)
            if found.watched != member.assigned:
                found.wake()

    def forget(self, group: str, member_id: str) -> None:
        """Forget all about a member: it has left, or begins anew."""
        found = self._members.pop((group, member_id), None)
        if found is not None:
            found.interrupt()
