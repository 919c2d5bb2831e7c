"""What a member of a group does, step by step: the part of a consumer that both clients share.

Everything is `Acts`: generators that yield calls. Those of `attend`, `beat`, `commit` and `leave` are about the
membership, and are carried out one at a time, whoever does it; `read` waits for messages, and does not keep heartbeats
from being sent meanwhile. So what a heartbeat tells is known before anything else is said in the name of the member.

| what is learned                        | what happens                                                                |
|----------------------------------------|-----------------------------------------------------------------------------|
| partitions are asked back              | the next `attend` gives them back; before, it commits, if that is its task  |
| the generation is over                 | a heartbeat tells the new one                                               |
| it is no member any more, or is fenced | it has *lost* all that it had, and commits nothing of it; `attend` joins    |
| the broker has forgotten where it was  | what was read is not taken; it seeks all its places, and reads again        |
| a transaction with its messages failed | `attend` goes back to the committed offsets before anything else            |

Where it is in its partitions is in `member_places`. What is brought by one poll is *done* when the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypedDict, TypeVar

import msgspec

from goqueue.api.groups import GroupPartition
from goqueue.client import groups
from goqueue.client.acts import Acts
from goqueue.client.calls import Call
from goqueue.client.durations import Duration, seconds_of
from goqueue.client.group_values import CooperativeMembership, PartitionOffset
from goqueue.client.groups import GroupPage
from goqueue.client.member_places import Places
from goqueue.client.messages import Message
from goqueue.errors import (
    Conflict,
    Fenced,
    GoQueueError,
    Invalid,
    NotFound,
    OffsetOutOfRange,
    StaleMemberEpoch,
    Unavailable,
    UnknownMember,
)
from goqueue.model.start_at import StartAt
from goqueue.seams.clock import Clock
from goqueue.seams.entropy import Entropy

T = TypeVar("T")

AUTO_COMMIT_S = 5.0
# As long as nothing is known: when the first join has told, it is what the broker asks for.
_FIRST_HEARTBEAT_S = 3.0
# How long to wait where partitions cannot be begun yet: when they can, where they begin is to be known soon.
_NOT_BEGUN_S = 0.5


class ConsumerOptions(TypedDict, total=False):
    """How a member reads.

    `auto_commit_s` (5) is how often it commits what earlier polls have brought; None leaves that to its program.
    `start_at` (earliest) is where it begins in a partition without a committed offset. Messages of transactions that
    have not committed are left out unless `is_committed_only` is False. `client_id` is how people see the member.
    """

    client_id: str
    auto_commit_s: Duration | None
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


class Reading(NamedTuple):
    """What one poll has brought, for `take`: the page, the seeks that it had told, and whether it is the last one."""

    page: GroupPage
    sought: Mapping[GroupPartition, int]
    is_last: bool


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
        auto_commit_s = options.get("auto_commit_s", AUTO_COMMIT_S)
        self._auto_commit_s = None if auto_commit_s is None else seconds_of(auto_commit_s, "auto_commit_s")
        self._start_at = options.get("start_at", StartAt.EARLIEST)
        self._commit_at = clock.monotonic() + (self._auto_commit_s or 0.0)
        self._lost: GoQueueError | None = None
        self._is_doubtful = False
        self._is_to_join = True
        self._has_lost_work = False
        self._is_going_on = False
        self._page = 0
        self._asked: frozenset[GroupPartition] = frozenset()
        self._places = Places()
        self._told: frozenset[GroupPartition] = frozenset()
        # The thread or task that polled last, for `transaction_inputs`.
        self.polled_by: object = None
        self._is_transactional = False
        # What has to be known before going back: how transactions with messages of this member have ended.
        self._settling: list[Callable[[], Acts[None]]] = []

    @property
    def member_id(self) -> str:
        """The id of the member, which it keeps when it joins again."""
        return self._member_id

    @property
    def has_unsaved(self) -> bool:
        """Whether polls have brought something that is not committed."""
        return self._places.has_unsaved

    @property
    def is_rewinding(self) -> bool:
        """Whether the next poll begins at the committed offsets, because a transaction has failed."""
        return bool(self._settling)

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
        return self._places.positions

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
        yield from self._go_back()
        self._places.finish()
        if self._is_doubtful:
            yield from self.beat()
        is_asked = self.member is not None and bool(self.member.revoke)
        if self._commits_by_itself and (is_asked or self._is_to_join or self._clock.monotonic() >= self._commit_at):
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

        Raises why the commit was not possible, after it has left, or why it was lost before it could commit.
        """
        failure = self._lost if self._has_lost_work else None
        if self._commits_by_itself and not self.is_rewinding and self.member is not None:
            try:
                yield from self._commit(self._places.wanted(is_done=is_done))
            except GoQueueError as error:
                failure = error
        # Whom a commit has not reached, this would not reach either; its session will be over soon without it.
        if self.member is not None and not isinstance(failure, Unavailable):
            try:
                yield groups.leave(self.group, self._member_id)
            except GoQueueError as error:
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
        self._has_lost_work = False
        self._page = 0
        self._is_to_join = False
        self._learn(told)

    def _learn(self, told: CooperativeMembership) -> None:
        self.member = told
        self._is_doubtful = False
        self._places.keep({*told.assigned, *told.revoke})

    def _lose(self, error: GoQueueError) -> None:
        if self._commits_by_itself and self._places.has_unsaved:
            self._has_lost_work = True
        self._lost = error
        self._forget_all()

    def _forget_all(self) -> None:
        self.member = None
        self._is_doubtful = False
        self._asked = frozenset()
        self._places.clear()

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

    def read(self, limit: int, deadline: float) -> Acts[Reading | None]:
        """Wait for messages until a deadline; None if the member has to attend, which it does as often as it beats.

        What was read is not taken yet: unless it is, it comes again.
        """
        member = self.member
        if member is None:
            return None
        sought, is_all = self._places.next_sought()
        left_s = max(deadline - self._clock.monotonic(), 0.0)
        # Until the broker knows all the places, most of what it reads is read in vain.
        patience_s = self._patience_s(member) if is_all else 0.0
        call = groups.poll(
            self.group,
            member,
            limit=limit if is_all else 1,
            wait_s=min(left_s, patience_s),
            start_at=self._start_at,
            after=self._page,
            seeks=[PartitionOffset(each.topic, each.partition, offset) for each, offset in sought.items()],
            is_committed_only=self._options.get("is_committed_only", True),
        )
        try:
            page: GroupPage = yield call
        except (Fenced, UnknownMember):
            # Only a heartbeat tells whether that is all over; one may have told while this waited.
            self._is_doubtful = self.member is not None and self.member.generation == member.generation
            return None
        is_last = is_all and not page.has_forgotten and left_s <= patience_s
        return Reading(page, sought, is_last)

    def _patience_s(self, member: CooperativeMembership) -> float:
        """Return how long a poll may wait for messages.

        Whoever begins at the end asks first where that is, and has time to commit it: what comes while it waits is
        skipped otherwise, if the broker is killed meanwhile.
        """
        if self._start_at is StartAt.LATEST and (unknown := self._places.unknown(member.assigned)):
            return _NOT_BEGUN_S if unknown <= self._asked else 0.0
        # Others wait for what this member is asked for, and messages may be long in coming.
        return self.heartbeat_s

    def take(self, reading: Reading) -> list[Message] | None:
        """Go on behind what was read, and return its messages; None if there are none yet, or they come again."""
        page, member = reading.page, self.member
        if member is None or self.is_rewinding:
            return None
        if page.has_forgotten and self._places.seek_again(reading.sought):
            return None
        held = {*member.assigned, *member.revoke}
        if any(GroupPartition(each.topic, each.partition) not in held for each in page.offsets):
            # It has a partition more, of which no heartbeat has told yet.
            self._is_doubtful = True
            return None
        self._page = page.number
        self._asked = frozenset(member.assigned)
        # What was astray is told once, and whoever polls has to hear of it, however long that poll still waits.
        astray = [(each, why) for each, why in self.errors.items() if isinstance(why, OffsetOutOfRange)]
        self.errors = dict([*(astray if self._is_going_on else ()), *page.errors])
        messages = self._places.take(page, reading.sought)
        if self._start_at is StartAt.LATEST and self._places.has_uncommitted_start:
            # Where it began is known to nobody else, and whoever follows would begin behind what has come since.
            self._commit_at = min(self._commit_at, self._clock.monotonic())
        self._is_going_on = not (messages or reading.is_last)
        return None if self._is_going_on else messages

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at an offset of a partition that the member has, from the next poll on."""
        each = GroupPartition(topic, partition)
        self._require(each)
        if offset < 0:
            raise Invalid(f"{offset} is no offset", hint="the first one is 0")
        self._places.seek(each, offset)

    # -- transactions

    @property
    def _commits_by_itself(self) -> bool:
        return self._auto_commit_s is not None and not self._is_transactional

    def enter_transaction(self) -> None:
        """Leave commits to transactions from now on: what is committed besides them, an abort could not take back."""
        self._is_transactional = True

    def rewind(self, settle: Callable[[], Acts[None]]) -> None:
        """Go back to the committed offsets with the next poll; `settle` waits until it is known which these are."""
        self._settling.append(settle)

    def saved(self, offsets: Iterable[PartitionOffset]) -> None:
        """Record offsets that a transaction has committed."""
        for each in offsets:
            self._places.saved(GroupPartition(each.topic, each.partition), each.offset)

    def _go_back(self) -> Acts[None]:
        """Go back to the committed offsets if a transaction has failed; if that is not possible now, the next time."""
        if not self._settling:
            return
        # Another thread may add one meanwhile: that one is for the next poll.
        settling = list(self._settling)
        for settle in settling:
            yield from settle()
        if self.member is not None:
            told = (yield groups.offsets(self.group)).offsets
            committed = {GroupPartition(each.topic, each.partition): each.offset for each in told}
            self._places.go_back({each: offset for each, offset in committed.items() if offset is not None})
        del self._settling[: len(settling)]

    # -- offsets

    def commit(self, offsets: Iterable[PartitionOffset] | None) -> Acts[None]:
        """Commit offsets of partitions that the member has, or else all that polls have brought.

        Raises why it was lost if it is no member any more: then nothing of it is committed.
        """
        if self._lost is not None:
            raise self._lost
        wanted = self._places.wanted(is_done=True)
        if offsets is not None:
            wanted = {GroupPartition(each.topic, each.partition): each.offset for each in offsets}
            for each in wanted:
                self._require(each)
        yield from self._commit(wanted)

    def _commit_by_itself(self) -> Acts[None]:
        if self.member is not None:
            try:
                yield from self._commit(self._places.wanted(is_done=False))
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
        if self.member is None:
            return None
        held = {*self.member.assigned, *self.member.revoke}
        left = {each: to for each, to in self._places.unsaved(wanted).items() if each in held}
        if not left:
            return None
        offsets = [PartitionOffset(each.topic, each.partition, to) for each, to in left.items()]
        try:
            fates = yield _repeatable(groups.commit(self.group, offsets, member=self.member))
        except (Fenced, UnknownMember) as error:
            return error
        for (each, to), fate in zip(left.items(), fates, strict=True):
            if fate is None:
                self._places.saved(each, to)
            elif isinstance(fate, NotFound) and not isinstance(fate, UnknownMember):
                # Its topic is gone, and all that was to be committed of it.
                self._places.drop(each)
            elif isinstance(fate, Fenced | UnknownMember):
                return fate
            else:
                raise fate
        return None

    def _require(self, each: GroupPartition) -> None:
        if self._lost is not None:
            raise self._lost
        if self.member is None or each not in {*self.member.assigned, *self.member.revoke}:
            hint = "poll first" if self.member is None else "look at its assignment"
            raise Conflict(f"{each} is not with this member of group {self.group!r}", hint=hint)


def _repeatable(call: Call[T]) -> Call[T]:
    """Return a call of a member that says who it is and what it has: to hear it twice changes nothing."""
    return replace(call, is_repeatable=True)
