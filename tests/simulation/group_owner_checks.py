"""Whether a partition has one owner at most, among members of a group whose broker assigns.

A member owns a partition from the moment at which it is told so until one of these:

| it gives it back                | begins a heartbeat that says it owns others only, joins anew, or leaves            |
| it learns that it is nobody     | is told that it is unknown or fenced                                               |
| it is silent for too long       | the session that began with its last heartbeat is over                             |
| it takes too long               | the time is over that it had to give this one back, or another, since it was told  |

The last two are what the broker may count on, so they are as early as the broker can know of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.consumer.values import JOIN_EPOCH, ConsumerHeartbeat, ConsumerReply
from goqueue.model.groups import SESSION_TIMEOUT_MS
from goqueue.model.topic import TopicPartition
from tests.simulation.group_history import Call, History

_SESSION_S = SESSION_TIMEOUT_MS / 1000


@dataclass(slots=True)
class Member:
    """What a member was told, and has given back; it is given up as a whole, at the first moment that it misses."""

    id: str
    limit_s: float = 0.0
    heard_s: float = 0.0
    owned: set[TopicPartition] = field(default_factory=set)
    # Until when it is to give partitions back.
    revoked_s: dict[TopicPartition, float] = field(default_factory=dict)
    # Whether an answer got lost: perhaps it was told to give back something, or got what it has to give back.
    has_missed: bool = False
    missed_s: float = float("inf")

    def owns(self, partition: TopicPartition, seconds: float) -> bool:
        """Tell whether a partition is the member's, as far as the broker has to believe it at that moment."""
        ends_s = min([self.heard_s + _SESSION_S, self.missed_s, *self.revoked_s.values()])
        return partition in self.owned and seconds < ends_s

    def misses(self, call: Call) -> None:
        """Take note that an answer did not reach it."""
        self.has_missed = True
        self.missed_s = min(self.missed_s, call.began_s + self.limit_s)

    def hears(self, call: Call, *, says_all: bool) -> None:
        """Take note that an answer has reached it, after it had said what it owns or had not."""
        if self.has_missed:
            self.misses(call)
            self.has_missed = False
        elif says_all:
            self.missed_s = float("inf")

    def is_believed(self, request: ConsumerHeartbeat) -> None:
        """Take note that what it has said is known: what it has given back is off its account."""
        for partition in sorted(self.revoked_s.keys() - self.owned):
            if request.epoch <= JOIN_EPOCH or (request.owned is not None and partition not in request.owned):
                del self.revoked_s[partition]


@dataclass(slots=True)
class Ledger:
    """The members of one group, as they know it; events have to come in their order."""

    members: dict[str, Member] = field(default_factory=dict)

    def others(self, partition: TopicPartition, member: str, seconds: float) -> list[str]:
        """Return the members that own a partition now, besides one."""
        return [each.id for each in self.members.values() if each.id != member and each.owns(partition, seconds)]

    def begins(self, request: ConsumerHeartbeat, *, is_late: bool) -> None:
        """Take note of what a member says."""
        member = self.members.setdefault(request.member_id, Member(request.member_id))
        if is_late:
            return
        if request.epoch == JOIN_EPOCH:
            member.limit_s = request.rebalance_timeout_ms / 1000
        is_going = request.epoch <= JOIN_EPOCH
        if is_going or request.owned is not None:
            member.owned &= frozenset() if is_going else request.owned or frozenset()

    def is_told(self, call: Call, request: ConsumerHeartbeat, reply: ConsumerReply) -> list[str]:
        """Take note of what a member is told; return what is wrong with it."""
        member = self.members[request.member_id]
        member.heard_s = max(member.heard_s, call.began_s)
        member.is_believed(request)
        if call.is_unheard:
            member.misses(call)
        else:
            member.hears(call, says_all=request.owned is not None)
        if reply.assignment is None or request.epoch < JOIN_EPOCH:
            return []
        for partition in member.owned & reply.assignment:
            member.revoked_s.pop(partition, None)
        for partition in member.owned - reply.assignment:
            # Counted from now on, whether the member has heard of it or not.
            member.revoked_s.setdefault(partition, min(call.began_s + member.limit_s, member.missed_s))
        if call.is_unheard:
            return []
        fresh = sorted(reply.assignment - member.owned)
        member.owned |= reply.assignment
        return [
            f"{partition} was given to {member.id} at {call.ended_s:.1f} s, while {others} had it"
            for partition in fresh
            if (others := self.others(partition, member.id, call.ended_s))
        ]

    def is_nobody(self, member_id: str) -> None:
        """Take note that a member has learnt that it is none."""
        self.members[member_id].owned.clear()
        self.members[member_id].revoked_s.clear()


def check_owners(history: History) -> list[str]:
    """Return the partitions that had two owners, and the commits of those who were no longer."""
    faults: list[str] = []
    ledgers: dict[str, Ledger] = {}
    doubted: dict[Call, list[str]] = {}
    events = [(call.began, call) for call in history.calls]
    events += [(call.ended if call.is_answered else call.until, call) for call in history.calls]
    for moment, call in sorted(events, key=lambda event: event[0]):
        request, answer, is_beginning = call.request, call.answer, moment == call.began
        if isinstance(request, ConsumerHeartbeat):
            ledger = ledgers.setdefault(request.group, Ledger())
            if is_beginning:
                # What comes late is not what the member says now.
                ledger.begins(request, is_late=call.is_late)
            elif isinstance(answer, ConsumerReply):
                faults += ledger.is_told(call, request, answer)
            elif call.is_in_doubt:
                ledger.members[request.member_id].misses(call)
            elif not call.is_unheard:
                ledger.is_nobody(request.member_id)
        elif isinstance(request, CommitOffsets) and request.group in ledgers and call.is_done:
            found = _others_of_commit(ledgers[request.group], call, request)
            if is_beginning:
                doubted[call] = found
            else:
                faults += [each for each in found if each in doubted[call]]
    return faults


def _others_of_commit(ledger: Ledger, call: Call, request: CommitOffsets) -> list[str]:
    """Return whose partitions a member has committed."""
    return [
        f"{request.member_id} could commit {each.partition}, which {other} had"
        for number, each in enumerate(request.offsets)
        if call.answer[number] is None
        for other in ledger.others(each.partition, request.member_id, call.ended_s)
    ]
