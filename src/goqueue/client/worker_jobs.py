"""Messages that a worker holds, from their arrival until they are settled, and what is to be said about them.

A job is waiting, running, or in the outbox. Whatever is said about jobs in the same words is said in one request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.client import queues
from goqueue.client.queues import QueueMessage, Settling
from goqueue.model.queue_settings import REASON_CHARS_MAX

BATCH_MAX = 1_000
"""How many messages are settled or renewed by one request."""

Lane = tuple[str, int, bytes]


class Statement(NamedTuple):
    """What is to be said about a message; `act` is the word for it."""

    act: str
    reason: str = ""
    delay_s: float | None = None

    def call(self, jobs: Sequence[Job]) -> Settling:
        """Return the request that says it of all these jobs."""
        receipts = [job.message.receipt_handle for job in jobs]
        # What an error says need not be text, such as the name of a file.
        reason = self.reason.encode("utf-8", "backslashreplace").decode()[:REASON_CHARS_MAX]
        if self.act == "ack":
            return queues.ack(*receipts)
        if self.act == "nack":
            return queues.nack(*receipts, delay_s=self.delay_s, reason=reason)
        if self.act == "reject":
            return queues.reject(*receipts, reason=reason)
        # Nobody is to blame, so nothing is to wait for, and no message dies of it.
        return queues.extend(*receipts, timeout_s=0)


ACK = Statement("ack")
RELEASE = Statement("release")


@dataclass(slots=True, eq=False)
class Job:
    """A message that the worker holds.

    `lane` is its key, if messages of one key are handled one after another. It is renewed at `renew_at`; `since` is
    when it came, and from its start on when that was. Once `is_given_up`, it is not renewed any more; if it `is_lost`,
    nothing is said about it either. It `is_cut` if the worker ends before its handler has. It `is_doubtful` while an
    answer is missing that would have told what became of it.
    """

    message: QueueMessage
    lane: Lane | None
    since: float
    renew_at: float
    is_given_up: bool = False
    is_lost: bool = False
    is_cut: bool = False
    is_doubtful: bool = False


class Outbox:
    """What is to be said about jobs, in the order in which it came up."""

    def __init__(self) -> None:
        self._jobs: dict[Statement, list[Job]] = {}
        self._taken = 0

    def __len__(self) -> int:
        """Return how many jobs are not settled, those included that are just being so."""
        return sum(map(len, self._jobs.values())) + self._taken

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to say."""
        return bool(self._jobs)

    def put(self, statement: Statement, job: Job) -> None:
        """Have something said about a job."""
        self._jobs.setdefault(statement, []).append(job)

    def take(self) -> tuple[Statement, list[Job]]:
        """Return what comes next, and of which jobs."""
        statement, jobs = next(iter(self._jobs.items()))
        taken, left = jobs[:BATCH_MAX], jobs[BATCH_MAX:]
        del self._jobs[statement]
        if left:
            self._jobs[statement] = left
        self._taken += len(taken)
        return statement, taken

    def settled(self, jobs: Sequence[Job]) -> None:
        """Forget jobs that were taken."""
        self._taken -= len(jobs)

    def put_back(self, statement: Statement, jobs: list[Job]) -> None:
        """Have it said again, in front of all that came later."""
        self._taken -= len(jobs)
        self._jobs = {statement: [*jobs, *self._jobs.pop(statement, ())], **self._jobs}
