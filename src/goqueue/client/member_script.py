"""What a member of a group does, step by step: the part of a consumer that both clients share.

Everything is `Acts`: generators that yield calls. Those of `attend`, `beat`, `commit` and `leave` are about the
membership, and are carried out one at a time, whoever does it; `read` waits for messages, and does not keep heartbeats
from being sent meanwhile. So what a heartbeat tells is known before anything else is said in the name of the member.

| what is learned                        | what happens                                                                |
|----------------------------------------|-----------------------------------------------------------------------------|
| partitions are asked back              | the next `attend` gives them back; before, it commits, if that is its task  |
| the generation is over                 | a heartbeat tells the new one                                               |
| it is no member any more, or is fenced | it has *lost* all that it had, and commits nothing of it; `attend` joins    |

A position is the offset behind what polls have brought. What is brought by one poll is *done* when the next one begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypedDict, TypeVar

import msgspec

from goqueue.client import groups
from goqueue.client.acts import Acts
from goqueue.client.calls import Call
from goqueue.client.group_values import CooperativeMembership, GroupPartition, PartitionOffset
from goqueue.client.groups import GroupPage
from goqueue.client.messages import Message
from goqueue.errors import Conflict, Fenced, GoQueueError, Invalid, NotFound, StaleMemberEpoch, UnknownMember
from goqueue.model.start_at import StartAt
from goqueue.seams.clock import Clock
from goqueue.seams.entropy import Entropy

T = TypeVar("T")

AUTO_COMMIT_S = 5.0
# As long as nothing is known: when the first join has told, it is what the broker asks for.
_FIRST_HEARTBEAT_S = 3.0


class ConsumerOptions(TypedDict, total=False):
    """How a member reads.

    `auto_commit_s` (5) is how often it commits what earlier polls have brought; None leaves that to its program.
    `start_at` (earliest) is where it begins in a partition without a committed offset. Messages of transactions that
    have not committed are left out unless `is_committed_only` is False. `client_id` is how people see the member.
    """

    client_id: str
    auto_commit_s: float | None
    start_at: StartAt
    is_committed_only: bool
    assignor: str | None


class AssignmentChange(NamedTuple):
    """What a member has now, what of it is new, and what it has no more.

    If it has `lost` its membership before, that is why, and all that it had was gone.
    """

    assignment: tuple[GroupPartition, ...]
    assigned: tuple[GroupPartition, ...]
    revoked: tuple[GroupPartition, ...]
    lost: GoQueueError | None = None


class MemberScript:
    """One member of a group."""

    def __init__(self, group: str, options: ConsumerOptions, clock: Clock, entropy: Entropy) -> None:
        self.group = group
        self.member: CooperativeMembership | None = None
        self.errors: Mapping[GroupPartition, GoQueueError] = {}
        self._options = options
        self._clock = clock
        self._topics: tuple[str, ...] = ()
        client_id = options.get("client_id", "python")
        # Of its own choice, so that a join can be sent again.
        self._member_id = f"{client_id}-{entropy.uuid()}"
        self._auto_commit_s = options.get("auto_commit_s", AUTO_COMMIT_S)
        self._commit_at = clock.monotonic() + (self._auto_commit_s or 0.0)
        self._lost: GoQueueError | None = None
        self._is_doubtful = False
        self._is_to_join = True
        self._page = 0
        self._positions: dict[GroupPartition, int] = {}
        self._done: dict[GroupPartition, int] = {}
        self._committed: dict[GroupPartition, int] = {}
        self._seeks: dict[GroupPartition, int] = {}
        self._told: frozenset[GroupPartition] = frozenset()

    @property
    def heartbeat_s(self) -> float:
        """How long to wait until the next heartbeat."""
        return _FIRST_HEARTBEAT_S if self.member is None else self.member.heartbeat_interval_ms / 1000

    @property
    def assignment(self) -> tuple[GroupPartition, ...]:
        """The partitions that the member reads."""
        return () if self.member is None else self.member.assigned

    @property
    def positions(self) -> list[PartitionOffset]:
        """The offsets behind what polls have brought, of the partitions that the member has."""
        return [PartitionOffset(each.topic, each.partition, offset) for each, offset in self._positions.items()]

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics from the next poll on, instead of those before."""
        wanted = tuple(sorted(set(topics)))
        if not wanted:
            raise Invalid("a member reads at least one topic")
        self._is_to_join = self._is_to_join or wanted != self._topics
        self._topics = wanted

    def deadline(self, wait_s: float) -> float:
        """Return the moment that is so far away."""
        return self._clock.monotonic() + wait_s

    # -- membership

    def attend(self) -> Acts[AssignmentChange | None]:
        """See to it that it is a member, and that it has given back what it was asked for; return what has changed."""
        if not self._topics:
            raise Conflict(f"the member of group {self.group!r} reads no topic yet", hint="subscribe first")
        self._done = dict(self._positions)
        if self._is_doubtful:
            yield from self.beat()
        is_asked = self.member is not None and bool(self.member.revoke)
        if self._auto_commit_s is not None and (
            is_asked or self._is_to_join or self._clock.monotonic() >= self._commit_at
        ):
            yield from self._commit_by_itself()
        if self.member is not None and self.member.revoke:
            # From now on it has them no more, whether or not anybody hears of it at once.
            self._learn(msgspec.structs.replace(self.member, revoke=()))
            yield from self.beat()
        lost = self._lost
        if self.member is None or self._is_to_join:
            yield from self._join()
        return self._change(lost)

    def beat(self) -> Acts[None]:
        """Tell that the member is alive and what it has, and learn what is new; nothing if it is none."""
        if self.member is None:
            return
        owned = (*self.member.assigned, *self.member.revoke)
        call = groups.heartbeat_cooperatively(self.group, self.member, owned=owned)
        try:
            self._learn((yield _repeatable(call)))
        except (Fenced, UnknownMember) as error:
            self._lose(error)

    def leave(self, *, is_done: bool) -> Acts[None]:
        """Commit, if it commits by itself, and leave; unless it `is_done` with what the last poll brought, not that.

        Raises why the commit was not possible, after it has left.
        """
        failure: GoQueueError | None = None
        if self._auto_commit_s is not None and self.member is not None:
            try:
                yield from self._commit(self._positions if is_done else self._done)
            except GoQueueError as error:
                failure = error
        if self.member is not None:
            try:
                yield groups.leave(self.group, self._member_id)
            except GoQueueError as error:
                # Its session will be over soon without it.
                failure = failure if isinstance(error, UnknownMember) else failure or error
            self._forget_all()
        if failure is not None:
            raise failure

    def _join(self) -> Acts[None]:
        told = yield _repeatable(
            groups.join_cooperatively(
                self.group,
                self._topics,
                client_id=self._options.get("client_id", "python"),
                member_id=self._member_id,
                assignor=self._options.get("assignor"),
            )
        )
        # The broker begins at the committed offsets again.
        self._forget_all()
        self._lost = None
        self._is_to_join = False
        self._learn(told)

    def _learn(self, told: CooperativeMembership) -> None:
        self.member = told
        self._is_doubtful = False
        held = {*told.assigned, *told.revoke}
        for table in (self._positions, self._done, self._committed, self._seeks):
            for each in [each for each in table if each not in held]:
                del table[each]

    def _lose(self, error: GoQueueError) -> None:
        self._lost = error
        self._forget_all()

    def _forget_all(self) -> None:
        self.member = None
        self._is_doubtful = False
        for table in (self._positions, self._done, self._committed, self._seeks):
            table.clear()

    def news(self) -> AssignmentChange | None:
        """Return what heartbeats have changed since the last time; nothing of a loss, which `attend` tells."""
        return None if self.member is None else self._change(None)

    def _change(self, lost: GoQueueError | None) -> AssignmentChange | None:
        now = frozenset(self.assignment)
        before, self._told = self._told, now
        if lost is None and now == before:
            return None
        assigned, revoked = (now, before) if lost is not None else (now - before, before - now)
        return AssignmentChange(tuple(sorted(now)), tuple(sorted(assigned)), tuple(sorted(revoked)), lost)

    # -- messages

    def read(self, limit: int, deadline: float) -> Acts[list[Message] | None]:
        """Wait for messages until a deadline; None if the member has to attend, which it does as often as it beats."""
        member = self.member
        if member is None:
            return None
        seeks = dict(self._seeks)
        left_s = max(deadline - self._clock.monotonic(), 0.0)
        call = groups.poll(
            self.group,
            member,
            limit=limit,
            wait_s=min(left_s, self.heartbeat_s),
            start_at=self._options.get("start_at", StartAt.EARLIEST),
            after=self._page,
            seeks=[PartitionOffset(each.topic, each.partition, offset) for each, offset in seeks.items()],
            is_committed_only=self._options.get("is_committed_only", True),
        )
        try:
            page: GroupPage = yield call
        except (Fenced, UnknownMember):
            # Only a heartbeat tells whether that is all over; one may have told while this waited.
            self._is_doubtful = self.member is not None and self.member.generation == member.generation
            return None
        now = self.member
        if now is None:
            return None
        if behind := self._behind(page, seeks):
            # A broker that was started anew has forgotten how far it was, and goes on where it is told to.
            self._seeks |= behind
            return None
        self._take(page, seeks, {*now.assigned, *now.revoke})
        # Others wait for what this member is asked for, and messages may be long in coming.
        is_over = bool(page.messages) or left_s <= self.heartbeat_s
        return list(page.messages) if is_over else None

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at an offset of a partition that the member has, from the next poll on."""
        each = GroupPartition(topic, partition)
        self._require(each)
        if offset < 0:
            raise Invalid(f"{offset} is no offset", hint="the first one is 0")
        self._seeks[each] = self._positions[each] = offset

    def _behind(self, page: GroupPage, seeks: Mapping[GroupPartition, int]) -> dict[GroupPartition, int]:
        """Return the positions of partitions of which the page brings what has come before, and nobody has sought."""
        found = {}
        for message in page.messages:
            each = GroupPartition(message.topic, message.partition)
            if message.offset < self._positions.get(each, 0) and each not in seeks:
                found[each] = self._positions[each]
        return found

    def _take(self, page: GroupPage, seeks: Mapping[GroupPartition, int], held: set[GroupPartition]) -> None:
        self._page = page.number
        self.errors = dict(page.errors)
        for each, offset in seeks.items():
            if self._seeks.get(each) == offset:
                del self._seeks[each]
        for told in page.offsets:
            each = GroupPartition(told.topic, told.partition)
            if each in held and each not in self._seeks:
                self._positions[each] = told.offset

    # -- offsets

    def commit(self, offsets: Iterable[PartitionOffset] | None) -> Acts[None]:
        """Commit offsets of partitions that the member has, or else all that polls have brought.

        Raises why it was lost if it is no member any more: then nothing of it is committed.
        """
        if self._lost is not None:
            raise self._lost
        wanted = self._positions
        if offsets is not None:
            wanted = {GroupPartition(each.topic, each.partition): each.offset for each in offsets}
            for each in wanted:
                self._require(each)
        yield from self._commit(wanted)

    def _commit_by_itself(self) -> Acts[None]:
        if self.member is not None:
            try:
                yield from self._commit(self._done)
            except (Fenced, UnknownMember) as error:
                self._lose(error)
        self._commit_at = self.deadline(self._auto_commit_s or 0.0)

    def _commit(self, wanted: Mapping[GroupPartition, int]) -> Acts[None]:
        refusal = yield from self._try_commit(wanted)
        if isinstance(refusal, StaleMemberEpoch):
            # A reply may have been lost that has told a new generation.
            yield from self.beat()
            refusal = self._lost or (yield from self._try_commit(wanted))
        if refusal is not None:
            self._lose(refusal)
            raise refusal

    def _try_commit(self, wanted: Mapping[GroupPartition, int]) -> Acts[GoQueueError | None]:
        """Commit what is not, and return why the member may not; raise what else is wrong."""
        assert self.member is not None, "only members commit"
        held = {*self.member.assigned, *self.member.revoke}
        left = {each: to for each, to in wanted.items() if each in held and self._committed.get(each) != to}
        if not left:
            return None
        offsets = [PartitionOffset(each.topic, each.partition, to) for each, to in left.items()]
        try:
            fates = yield _repeatable(groups.commit(self.group, offsets, member=self.member))
        except (Fenced, UnknownMember) as error:
            return error
        for (each, to), fate in zip(left.items(), fates, strict=True):
            if fate is None:
                self._committed[each] = to
            elif isinstance(fate, NotFound) and not isinstance(fate, UnknownMember):
                # Its topic is gone, and all that was to be committed of it.
                self._positions.pop(each, None)
            elif isinstance(fate, Fenced | UnknownMember):
                return fate
            else:
                raise fate
        return None

    def _require(self, each: GroupPartition) -> None:
        if self._lost is not None:
            raise self._lost
        if self.member is None or each not in {*self.member.assigned, *self.member.revoke}:
            raise Conflict(f"{each} is not with this member of group {self.group!r}", hint="look at its assignment")


def _repeatable(call: Call[T]) -> Call[T]:
    """Return a call of a member that says who it is and what it has: to hear it twice changes nothing."""
    return replace(call, is_repeatable=True)
