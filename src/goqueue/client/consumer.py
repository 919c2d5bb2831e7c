"""Members of groups, for programs that read: join, read, commit and leave, with heartbeats in the background.

    with client.consumer("billing", ["orders"]) as consumer:
        while True:
            for message in consumer.poll(wait_s=5):
                ...

A member joins when it polls first. Every 5 s a poll commits what the polls before have brought, and so does the end of
the block; if an exception ends it, without what came last. What is not committed comes again, to whoever has the
partition then. With `auto_commit_s=None` a program commits by itself, before it polls again.

A consumer whose offsets are sent in a transaction (`transactional`) leaves commits to transactions. If a transaction
does not commit, the next poll of its consumer begins at the committed offsets.

Heartbeats are sent while the program works, however long that takes. Partitions that the broker asks for are given back
by the next poll: within a minute, or the member is removed. A member that was removed, or was not heard of for 30 s,
drops what it had, joins again at its next poll, and tells so (`on_change`); `commit` raises that it was too late.

What happens when is decided by `member_script`, once for both; these two carry it out. One thread or task polls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from goqueue.api.groups import GroupPartition
from goqueue.client.acts import carry_out, carry_out_async
from goqueue.client.conversation import Patience
from goqueue.client.durations import Duration, seconds_of
from goqueue.client.group_values import CooperativeMembership, PartitionOffset
from goqueue.client.member_script import AssignmentChange, MemberScript, Reading
from goqueue.client.messages import Message
from goqueue.client.transaction_inputs import current_task, current_thread, register
from goqueue.errors import Conflict, GoQueueError

if TYPE_CHECKING:
    from goqueue.client.client import AsyncClient, Client

# A heartbeat that does not arrive is followed by another one anyway.
_ONCE = Patience(attempts=1)


class _Seen:
    """What can be seen and said of a member without asking anybody."""

    on_change: Callable[[AssignmentChange], object] | None = None
    """Called by polls, before they return, when the member has other partitions than before."""

    def __init__(self, script: MemberScript, topics: Iterable[str]) -> None:
        self._script = script
        self._is_closed = False
        self._beat_failure: Exception | None = None
        register(script)
        if wanted := list(topics):
            script.subscribe(wanted)

    @property
    def member(self) -> CooperativeMembership | None:
        """The member as it was told last, for `send_offsets` of a transaction; None if it is none at the moment."""
        return self._script.member

    @property
    def positions(self) -> list[PartitionOffset]:
        """What `commit` would commit: the offsets behind all that polls have brought."""
        return self._script.positions

    @property
    def assignment(self) -> tuple[GroupPartition, ...]:
        """The partitions that it reads."""
        return self._script.assignment

    @property
    def errors(self) -> Mapping[GroupPartition, GoQueueError]:
        """Partitions that the last poll could not read, and why; the others are read all the same.

        OffsetOutOfRange tells that a partition has nothing where it was to go on, and is read from `start_at` on.
        """
        return self._script.errors

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics from the next poll on, instead of those before; also such that do not exist yet."""
        self._script.subscribe(topics)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at an offset of a partition that the member has, from the next poll on; it is committed as if read."""
        self._script.seek(topic, partition, offset)

    def _taken(self, reading: Reading | None) -> list[Message] | None:
        """Return the messages that were read, once changes are told; if that raises, they come again."""
        if reading is not None:
            self._tell(self._script.news())
        self._require_open()
        return None if reading is None else self._script.take(reading)

    def _tell(self, change: AssignmentChange | None) -> None:
        if change is not None and self.on_change is not None:
            self.on_change(change)

    def _require_open(self) -> None:
        if self._is_closed:
            raise Conflict(f"this member of group {self._script.group!r} has left", hint="make another consumer")
        if self._beat_failure is not None:
            raise Conflict(
                f"no more heartbeats are sent for this member of group {self._script.group!r}",
                hint="close it, and make another consumer",
            ) from self._beat_failure


class Consumer(_Seen):
    """A member of a group for code that waits."""

    def __init__(self, client: Client, script: MemberScript, topics: Iterable[str]) -> None:
        super().__init__(script, topics)
        self._client = client
        self._membership = threading.Lock()
        self._ending = threading.Event()
        self._beating: threading.Thread | None = None

    def poll(self, *, limit: int = 500, wait_s: Duration = 1.0) -> list[Message]:
        """Return messages of the member's partitions, each partition's in order; waits for the first one."""
        deadline = self._script.deadline(seconds_of(wait_s, "wait_s"))
        self._script.polled_by = current_thread()
        while True:
            with self._membership:
                # Whoever closes waits for the lock before it leaves: from then on nothing may join again.
                self._require_open()
                change = carry_out(self._client, self._script.attend())
                self._begin_beating()
            self._tell(change)
            reading = carry_out(self._client, self._script.read(limit, deadline))
            messages = self._taken(reading)
            if messages is not None:
                return messages

    def commit(self, offsets: Iterable[PartitionOffset] | None = None) -> None:
        """Commit all that polls have brought, or the offsets to go on from; it is on disk at return.

        Raises UnknownMember, MemberFenced or StaleMemberEpoch if the member was lost: nothing is committed then.
        """
        with self._membership:
            self._require_open()
            carry_out(self._client, self._script.commit(offsets))

    def close(self, *, is_done: bool = True, patience: Patience | None = None) -> None:
        """Commit, unless a program does that by itself, and leave; if not `is_done`, without what came last.

        Raises why it could not commit, or why it was lost with what came since the last commit; it has left then, or
        will have when its session ends. `patience` is for leaving alone, instead of the client's.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._ending.set()
        with self._membership:
            carry_out(self._client, self._script.leave(is_done=is_done), patience=patience)
        if self._beating is not None:
            self._beating.join()

    def _begin_beating(self) -> None:
        if self._beating is None:
            self._beating = threading.Thread(target=self._beat, name="goqueue-heartbeats", daemon=True)
            self._beating.start()

    def _beat(self) -> None:
        try:
            while not self._ending.wait(self._script.heartbeat_s) and not self._client.is_closed:
                with self._membership, suppress(GoQueueError):
                    carry_out(self._client, self._script.beat(), patience=_ONCE)
        except Exception as error:  # noqa: BLE001 - the edge of a thread: whoever polls next hears of it
            self._beat_failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        with suppress(GoQueueError):
            self.close(is_done=False)


class AsyncConsumer(_Seen):
    """A member of a group for an event loop."""

    def __init__(self, client: AsyncClient, script: MemberScript, topics: Iterable[str]) -> None:
        super().__init__(script, topics)
        self._client = client
        self._membership = asyncio.Lock()
        self._ending = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    async def poll(self, *, limit: int = 500, wait_s: Duration = 1.0) -> list[Message]:
        """Return messages of the member's partitions, each partition's in order; waits for the first one."""
        deadline = self._script.deadline(seconds_of(wait_s, "wait_s"))
        self._script.polled_by = current_task()
        while True:
            async with self._membership:
                self._require_open()
                change = await carry_out_async(self._client, self._script.attend())
                if self._beating is None:
                    self._beating = asyncio.create_task(self._beat(), name="goqueue-heartbeats")
            self._tell(change)
            reading = await carry_out_async(self._client, self._script.read(limit, deadline))
            messages = self._taken(reading)
            if messages is not None:
                return messages

    async def commit(self, offsets: Iterable[PartitionOffset] | None = None) -> None:
        """Commit all that polls have brought, or the offsets to go on from; as that of `Consumer`."""
        async with self._membership:
            self._require_open()
            await carry_out_async(self._client, self._script.commit(offsets))

    async def close(self, *, is_done: bool = True, patience: Patience | None = None) -> None:
        """Commit, unless a program does that by itself, and leave; as that of `Consumer`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._ending.set()
        async with self._membership:
            await carry_out_async(self._client, self._script.leave(is_done=is_done), patience=patience)
        if self._beating is not None:
            await self._beating

    async def _beat(self) -> None:
        try:
            while not self._ending.is_set() and not self._client.is_closed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._script.heartbeat_s):
                        await self._ending.wait()
                async with self._membership:
                    with suppress(GoQueueError):
                        await carry_out_async(self._client, self._script.beat(), patience=_ONCE)
        except Exception as error:  # noqa: BLE001 - the edge of a task: whoever polls next hears of it
            self._beat_failure = error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        with suppress(GoQueueError):
            await self.close(is_done=False)
