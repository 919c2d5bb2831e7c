"""A state machine over its own log: decide, append, adopt, wait, reply.

State in memory always equals the stored records. A command is decided, and its records are appended and adopted without
a pause in between; its caller gets the answer once they are durable. If they cannot become durable, the log and the
shard go offline: the state in memory is never used again, and all waiting callers get LogOffline.

A command that its own decision does not answer waits, under its ticket, for a later decision that does. Time works the
same way: when something is due, the machine returns the commands to carry out.

Independent commands, whose decisions read nothing that the others change, are gathered: commands that arrive while the
loop is busy are written as one batch. They are in the log before any other command is decided or answered.

Immediate answers need not be durable, but their records are written: they survive a kill, but perhaps not a power loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from goqueue.errors import Corrupt, GoQueueError, LogOffline, TooLarge
from goqueue.machines.decision import Decision, KeyedRecord, Now, TicketReply
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers
from goqueue.records.reader import read_pairs
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import hand_over
from goqueue.seams.clock import Clock

_READ_BYTES = 1024 * 1024
_TIMER_MAX_S = 3600.0
# Failed due work is tried again after this time.
_AGAIN_S = 1.0
# Gathered records are written at once when they get larger than this.
_GATHERED_BYTES_MAX = 256 * 1024
_STOPPING = "the broker is about to stop"
_MESSAGE_CHARS_MAX = 500

# Calling the class goes through a Python function, and there may be millions at a start.
_keyed = partial(tuple.__new__, KeyedRecord)

CommandT = TypeVar("CommandT")


class Machine(Protocol[CommandT]):
    """The state machine of a shard."""

    def is_independent(self, command: CommandT) -> bool:
        """Return whether the decision of a command reads nothing that other independent commands change."""
        ...

    def decide(self, command: CommandT, ticket: int, now: Now) -> Decision:
        """Return the decision for a command without changing state; raises the reason if it is forbidden."""
        ...

    def adopt(self, decision: Decision) -> None:
        """Apply a decision to the state; its records are in the log."""
        ...

    def apply(self, record: KeyedRecord) -> None:
        """Record a stored record, at start."""
        ...

    def revive(self, now: Now) -> None:
        """Begin to live: all stored records were applied."""
        ...

    def deadline_ms(self) -> int | None:
        """Return the monotonic moment at which something is due next."""
        ...

    def due(self, now: Now) -> Iterable[CommandT]:
        """Return the commands that time has brought."""
        ...


class Shard(Generic[CommandT]):
    """One machine and the partition that holds its records; `changed` is called when a decision is answered."""

    def __init__(
        self,
        machine: Machine[CommandT],
        partition: Partition,
        clock: Clock,
        changed: Callable[[], None] | None = None,
    ) -> None:
        self.partition = partition
        self._changed = changed
        self._machine = machine
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._tickets = count()
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._gathered: list[Decision] = []
        self._gathered_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._is_closed = False
        self._replay()
        machine.revive(self._now())
        self._set_timer()

    def _replay(self) -> None:
        log = self.partition.log
        offset = log.start_offset
        if offset > 0 and not log.settings.deletes:
            # Nothing is ever deleted from a log that is only compacted.
            raise Corrupt(f"{log.directory} has lost its records before offset {offset}")
        apply = self._machine.apply
        while data := log.read(offset, bytes_max=_READ_BYTES):
            view = memoryview(data)
            for position, header in headers(data):
                # The checksum of each batch is verified here as well.
                for pair in read_pairs(view[position:], decompressed_bytes_max=log.settings.max_message_bytes):
                    if pair[0] is None:
                        raise Corrupt(f"{log.directory} has a record without a key behind offset {header.base_offset}")
                    apply(_keyed(pair))
                offset = header.next_offset

    async def submit(self, command: CommandT) -> Any:
        """Carry out a command and return its answer; durable at return, unless the machine says that it need not be.

        Raises the machine's refusal, or LogOffline.
        """
        ticket = next(self._tickets)
        answered: asyncio.Future[object] = self._loop.create_future()
        self._waiting[ticket] = answered
        try:
            answers = self._carry_out(command, ticket)
            if self._is_closed and all(answer.ticket != ticket for answer in answers):
                raise LogOffline(_STOPPING)
            reply = await answered
        finally:
            del self._waiting[ticket]
        if isinstance(reply, GoQueueError):
            raise reply
        return reply

    @property
    def is_settled(self) -> bool:
        """Whether all that was decided so far is durable."""
        return not self._gathered and self.partition.log.end_offset <= self.partition.high_watermark

    async def settled(self) -> None:
        """Wait until all that was decided so far is durable; LogOffline if it cannot become so."""
        self._write_gathered()
        await self.partition.committed(self.partition.log.end_offset)

    def pass_time(self) -> None:
        """Carry out the commands that are due. A failed one stays due for later, and does not stop the others."""
        self._stop_timer()
        if self._is_closed:
            return
        self._write_gathered()
        has_failed = False
        for command in self._machine.due(self._now()):
            try:
                self._carry_out(command, next(self._tickets))
            except GoQueueError:
                # A log that takes nothing says so elsewhere.
                has_failed = True
            except Exception as error:  # noqa: BLE001 - a mistake about one name, which others must not notice
                has_failed = True
                message = f"{command!r} was due in {self.partition.topic}-{self.partition.index} and failed"
                self._loop.call_exception_handler({"message": message[:_MESSAGE_CHARS_MAX], "exception": error})
        if has_failed:
            self._stop_timer()
        self._set_timer(delay_min_s=_AGAIN_S if has_failed else 0.0)

    def close(self) -> None:
        """Stop the timer, and answer all waiting callers with LogOffline."""
        self._write_gathered()
        self._is_closed = True
        self._stop_timer()
        self._give_up(_STOPPING)

    def _give_up(self, reason: str) -> None:
        for answered in self._waiting.values():
            hand_over(answered, LogOffline(reason))

    def _carry_out(self, command: CommandT, ticket: int) -> Sequence[TicketReply]:
        is_independent = self._machine.is_independent(command)
        if self._gathered and not is_independent:
            self._write_gathered()
        decision = self._machine.decide(command, ticket, self._now())
        if is_independent and decision.records and not self._is_closed:
            self._gather(decision)
            return decision.answers
        if decision.records:
            self._append(decision.records, is_awaited=not decision.is_told_at_once)
        self._adopt(decision)
        self._set_timer()
        end = self.partition.log.end_offset
        # An earlier command may have made this one needless, and not be durable yet.
        if decision.is_idle and (decision.is_told_at_once or end <= self.partition.high_watermark):
            self._hand_out(decision.answers)
        elif end <= self.partition.high_watermark or self.partition.log.fault:
            self._tell(decision.answers, end)
        elif decision.is_told_at_once:
            self._tell(decision.answers, self.partition.high_watermark)
        else:
            self.partition.waiters.wait_for(end, partial(self._tell, decision.answers, end))
            self.partition.flusher.hurry()
        return decision.answers

    def _gather(self, decision: Decision) -> None:
        if not self._gathered:
            self._loop.call_soon(self._write_gathered)
        self._gathered.append(decision)
        self._gathered_bytes += _size(decision.records)
        if self._gathered_bytes > _GATHERED_BYTES_MAX:
            self._write_gathered()

    def _write_gathered(self) -> None:
        """Append the gathered records, all or none, and adopt them."""
        if not self._gathered:
            return
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        answers = [answer for decision in gathered for answer in decision.answers]
        try:
            self._append([record for decision in gathered for record in decision.records], is_awaited=True)
        except GoQueueError as error:
            self._hand_out([TicketReply(ticket, error) for ticket, _ in answers])
            return
        for decision in gathered:
            self._adopt(decision)
        self._set_timer()
        end = self.partition.log.end_offset
        self.partition.waiters.wait_for(end, partial(self._tell, answers, end))

    def _append(self, records: Sequence[KeyedRecord], *, is_awaited: bool) -> None:
        now_ms = self._clock.now_ms()
        batch = build_batch([NewRecord(now_ms, record.key, record.value) for record in records])
        if len(batch) > self.partition.settings.log.max_message_bytes:
            raise TooLarge(f"a decision takes {len(batch)} bytes, more than {self.partition.topic} can hold at once")
        try:
            self.partition.append_own(batch, is_awaited=is_awaited)
        except GoQueueError:
            if self.partition.log.fault:
                # Nothing will ever be decided again.
                self._give_up(self.partition.log.fault)
            raise

    def _adopt(self, decision: Decision) -> None:
        try:
            self._machine.adopt(decision)
        except Exception as error:
            # The state in memory no longer equals the stored records, so it must not be used.
            self.partition.log.go_offline(f"a decision could not be adopted: {error!r}")
            self._give_up(self.partition.log.fault)
            raise

    def _tell(self, answers: Sequence[TicketReply], end: int) -> None:
        if end > self.partition.high_watermark:
            self._give_up(self.partition.log.fault or _STOPPING)
            return
        self._hand_out(answers)
        if self._changed is not None:
            self._changed()

    def _hand_out(self, answers: Sequence[TicketReply]) -> None:
        for ticket, reply in answers:
            answered = self._waiting.get(ticket)
            if answered is not None:
                hand_over(answered, reply)

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), int(self._clock.monotonic() * 1000))

    def _set_timer(self, delay_min_s: float = 0.0) -> None:
        """See to it that time passes when something is due."""
        deadline = self._machine.deadline_ms()
        if deadline is None or self._is_closed or (self._timer is not None and self._timer_ms <= deadline):
            return
        self._stop_timer()
        # One millisecond later, since moments are cut to whole ones.
        delay = min(max((deadline + 1) / 1000 - self._clock.monotonic(), delay_min_s), _TIMER_MAX_S)
        self._timer_ms = deadline
        self._timer = self._loop.call_later(delay, self.pass_time)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None


def _size(records: Sequence[KeyedRecord]) -> int:
    return sum([len(record.key) + len(record.value or b"") for record in records])
