"""Share sessions: in which partitions a member of a share group looks, and which of its requests comes next.

Every request of a session carries an epoch: 0 opens it, and discards the one before; the next ones count on from 1, and
-1 closes it. All messages that a session gets are leased under one id, so the session knows nothing of single messages:
whatever is leased under its id is its own.

Nothing of this is stored, and a lease is. A member whose session is gone opens another one, and all that it holds is
ready again by that, whatever session it was under.

| a session ends                                            | and its messages are         | are they tried in vain? |
|-----------------------------------------------------------|------------------------------|-------------------------|
| by its last request                                       | given back, before the reply | no                      |
| by another one of the same member                         | given back, before the reply | no                      |
| when its member is in no group after `JOINED_WITHIN_MS`   | given back                   | no                      |
| when its member was silent for too long                   | given back                   | yes                     |
| when its connection is over, and nothing is heard of it   | given back after `GRACE_MS`; | yes                     |
| by another one, nor of its member                         | the member leaves the group  |                         |
| by the next request after its group was deleted           | forgotten already            |                         |

Whatever is given back is ready at once. Nobody has said anything about it, so nothing dies of sessions that end in
order. But a consumer that is gone may have died of what it held: as if it had released its messages, those without a
retry left become dead letters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from uuid import UUID

from typing_extensions import override

from goqueue.broker.core import Core, Service
from goqueue.broker.messages.opened_batches import FullBatches
from goqueue.broker.presence import Presence
from goqueue.broker.queues.service import QueueService
from goqueue.broker.topics.service import TopicService
from goqueue.errors import (
    GoQueueError,
    GroupNotEmpty,
    InvalidShareSessionEpoch,
    ShareSessionLimit,
    ShareSessionNotFound,
    UnknownQueue,
)
from goqueue.machines.deadlines import Deadlines
from goqueue.machines.groups.share.members import MemberKey
from goqueue.machines.groups.share.values import SESSION_TIMEOUT_MS
from goqueue.machines.queues.commands import Receipt, Settle, claims_of
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.runtime.waiters import Wake

OPENING_EPOCH = 0
FINAL_EPOCH = -1
SESSIONS_MAX = 10_000
CONNECTION_SESSIONS_MAX = 100
"""How many sessions one connection has at most: clients have one for each member, and a connection for each client."""
JOINED_WITHIN_MS = SESSION_TIMEOUT_MS
"""How long a session is kept whose member has not joined: clients join first, and fetch then."""
GRACE_MS = 10_000
"""How long a session without a connection is kept: a client may connect again. Members are heard more often."""
_EPOCH_MAX = 2**31 - 1
_LEASE_IDS = 2**64
_TIMER_MAX_S = 3600.0


class _Ending(NamedTuple):
    """What is said about messages that a session held at its end."""

    verdict: AckType
    error: str = ""


# A lease that ends now, and no release: nobody has tried these messages, as far as anybody knows.
_IN_ORDER = _Ending(AckType.EXTEND)
_GONE = _Ending(AckType.RELEASE, "the share consumer that held it is gone")


class SharePartition(NamedTuple):
    """A partition as sessions know it."""

    topic_id: UUID
    partition: int


class ShareSession:
    """One session; `epoch` is that of the request that comes next, `turn` where it looks first.

    `left_ms` is when its connection was over, if it is.
    """

    def __init__(self, key: MemberKey, lease_id: int, presence: Presence, left: Wake) -> None:
        self.key = key
        self.lease_id = lease_id
        self.epoch = 1
        self.turn = 0
        self.partitions: dict[SharePartition, None] = {}
        self.is_over = False
        self.left_ms = 0
        self._presence = presence
        self._left = left

    @property
    def is_connected(self) -> bool:
        """Whether the connection that it was heard on last is there."""
        return not self._presence.is_over

    def is_on(self, presence: Presence) -> bool:
        """Tell whether a connection is the one that it was heard on last."""
        return self._presence is presence

    def heard(self, presence: Presence) -> None:
        """Take note of a request that has come by a connection."""
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        if presence is not self._presence:
            self._leave_connection()
            self._presence = presence
            self.watch_connection()

    def watch_connection(self) -> None:
        """Be told when the connection is over; that may be at once."""
        self._presence.sessions += 1
        self._presence.watch(self._left)

    def end(self) -> None:
        """Get nothing any more."""
        self.is_over = True
        self._leave_connection()

    def _leave_connection(self) -> None:
        self._presence.sessions -= 1
        self._presence.forget(self._left)


class ShareGroupService(Service):
    """The members of all share groups, and their sessions."""

    def __init__(self, core: Core, topics: TopicService, queues: QueueService) -> None:
        super().__init__(core)
        self.topics = topics
        self.queues = queues
        self.members = queues.share_members
        self.sessions: dict[MemberKey, ShareSession] = {}
        self.full_batches = FullBatches()
        self._without_connection: Deadlines[MemberKey] = Deadlines()
        # When somebody looks whether the member of a session is there.
        self._membership: Deadlines[MemberKey] = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._is_closed = False

    async def open(self, key: MemberKey, presence: Presence) -> ShareSession:
        """Open a session; what its member has leased is ready again at return."""
        self._check_room(key, presence)
        former = self.sessions.pop(key, None)
        if former is not None:
            former.end()
        # What it holds may be from before a start of the broker, under whatever id.
        held = self._held(key)
        lease_id = self.core.entropy.below(_LEASE_IDS)
        session = self.sessions[key] = ShareSession(key, lease_id, presence, partial(self._left, key))
        session.watch_connection()
        # Nobody gets more time by opening it over and over.
        self._membership.note(key, self.now_ms() + JOINED_WITHIN_MS)
        self.set_timer()
        await self._give_back(key, held)
        return session

    def _check_room(self, key: MemberKey, presence: Presence) -> None:
        if key not in self.sessions and len(self.sessions) >= SESSIONS_MAX:
            raise ShareSessionLimit(f"there are {SESSIONS_MAX} share sessions already", hint="try again later")
        former = self.sessions.get(key)
        if presence.sessions >= CONNECTION_SESSIONS_MAX and (former is None or not former.is_on(presence)):
            raise ShareSessionLimit(
                f"the connection has {CONNECTION_SESSIONS_MAX} share sessions already", hint="use another connection"
            )

    def resume_session(self, key: MemberKey, epoch: int, presence: Presence) -> ShareSession:
        """Return a session whose next request this is, by its epoch."""
        session = self.sessions.get(key)
        if session is None:
            raise ShareSessionNotFound(f"member {key.member_id!r} has no share session", hint="open one with epoch 0")
        if epoch not in (session.epoch, FINAL_EPOCH):
            raise InvalidShareSessionEpoch(f"the session expects epoch {session.epoch}, not {epoch}")
        self._check_room(key, presence)
        session.heard(presence)
        return session

    async def close_session(self, key: MemberKey) -> None:
        """End a session; what it has leased is ready again at return."""
        await self._give_back(key, self._ended(key))

    def check_empty(self, group: str) -> None:
        """Refuse to go on with a group that has members."""
        if group in self.members.groups:
            raise GroupNotEmpty(f"group {group!r} has share consumers as members", hint="stop them first")

    # -- time

    @override
    def topics_changed(self, names: Collection[str]) -> None:
        self.members.topics_changed()

    @override
    def pass_time(self) -> None:
        """Let go whoever was silent for too long, and sessions that nobody comes back to, or that no member has."""
        self._stop_timer()
        now_ms = self.now_ms()
        gone = [*self.members.expired(now_ms), *self._lost(now_ms)]
        strangers = self._strangers(now_ms)
        for key in gone:
            self._let_go(key, _GONE)
        for key in strangers:
            self._let_go(key, _IN_ORDER)
        self.set_timer()

    def _lost(self, now_ms: int) -> list[MemberKey]:
        """Return the sessions whose connection is over, and of which nothing was heard since."""
        lost = []
        for key in self._without_connection.due(now_ms):
            session = self.sessions.get(key)
            if session is None or session.is_connected:
                self._without_connection.note(key, None)
                continue
            silent_ms = max(session.left_ms, self.members.heard_ms(key) or 0)
            if silent_ms + GRACE_MS <= now_ms:
                self._without_connection.note(key, None)
                lost.append(key)
            else:
                self._without_connection.note(key, silent_ms + GRACE_MS, is_past=True)
        return lost

    def _strangers(self, now_ms: int) -> list[MemberKey]:
        """Return the sessions whose member is in no group."""
        strangers = []
        for key in self._membership.due(now_ms):
            if self.members.heard_ms(key) is None:
                self._membership.note(key, None)
                strangers.append(key)
            else:
                self._membership.note(key, now_ms + JOINED_WITHIN_MS, is_past=True)
        return strangers

    def now_ms(self) -> int:
        """Return the monotonic moment."""
        return int(self.core.clock.monotonic() * 1000)

    def set_timer(self) -> None:
        """See to it that time passes when something is due."""
        moments = [self.members.deadline_ms(), self._without_connection.next_ms(), self._membership.next_ms()]
        due_ms = min((each for each in moments if each is not None), default=None)
        if due_ms is None or self._is_closed or (self._timer is not None and self._timer_ms <= due_ms):
            return
        self._stop_timer()
        self._timer_ms = due_ms
        # One millisecond later, since moments are cut to whole ones.
        delay_s = min(max((due_ms + 1) / 1000 - self.core.clock.monotonic(), 0.0), _TIMER_MAX_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self.pass_time)

    @override
    def close(self) -> None:
        """Let no more time pass: the broker is about to stop."""
        self._is_closed = True
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    # -- the end of sessions

    def _left(self, key: MemberKey) -> None:
        """Take note that the connection of a session is over."""
        session = self.sessions.get(key)
        if session is not None and not self._is_closed:
            session.left_ms = self.now_ms()
            self._without_connection.note(key, session.left_ms + GRACE_MS, is_past=True)
            self.set_timer()

    def _let_go(self, key: MemberKey, ending: _Ending) -> None:
        self.members.remove(key)
        held: Sequence[Receipt] = ()
        # If nobody can say what it holds, leases end by themselves.
        with suppress(GoQueueError):
            held = self._ended(key)
        if held and not self._is_closed:
            work = self._give_back_quietly(key, held, ending)
            self.core.tasks.start(work, f"share session of {key.member_id} has ended")

    def _ended(self, key: MemberKey) -> Sequence[Receipt]:
        """End a session, if there is one, and return what it holds."""
        session = self.sessions.pop(key, None)
        if session is None:
            return ()
        session.end()
        self._membership.note(key, None)
        return [receipt for receipt in self._held(key) if receipt.lease_id == session.lease_id]

    def _held(self, key: MemberKey) -> Sequence[Receipt]:
        """Return all messages that a member has leased."""
        group = self.queues.find(key.group)
        if group is None or key.member_id not in group.leases:
            return ()
        return [
            Receipt(where, offset, flight.lease.id)
            for where, window in group.windows.items()
            for chunk in window.chunks.values()
            for offset, flight in chunk.flights.items()
            if flight.state is FlightState.LEASED
            and flight.lease is not None
            and flight.lease.consumer == key.member_id
        ]

    async def _give_back(self, key: MemberKey, held: Sequence[Receipt], ending: _Ending = _IN_ORDER) -> None:
        if held:
            command = Settle(key.group, ending.verdict, claims_of(held), delay_ms=0, reason=ending.error)
            # Whatever is settled by now stays as it is, and of a group that is deleted nothing is left.
            with suppress(UnknownQueue):
                await self.queues.submit(key.group, command)

    async def _give_back_quietly(self, key: MemberKey, held: Sequence[Receipt], ending: _Ending) -> None:
        # If it cannot be stored, leases end by themselves.
        with suppress(GoQueueError):
            await self._give_back(key, held, ending)
