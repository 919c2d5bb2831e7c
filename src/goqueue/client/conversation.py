"""What happens to one call, step by step: sent, answered or lost, sent again or given up.

The steps are decided here and carried out by a client, sync or async, which sends back what came of each:

| step       | sent back                       |
|------------|---------------------------------|
| `Exchange` | a `Reply`, or `Lost`            |
| `Pause`    | nothing, after that many seconds |

A call is sent again only if that can do no harm: it never arrived, the broker refused it as a whole for the time
being, or it changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from goqueue.client.calls import Call, Lost, Reply
from goqueue.client.problems import RequestTimedOut, ServerUnreachable, error_of_reply
from goqueue.errors import GoQueueError, Throttled, Unavailable
from goqueue.seams.entropy import Entropy

T = TypeVar("T")


class Exchange(NamedTuple):
    """Send the call and wait for its reply."""

    call: Call[Any]


class Pause(NamedTuple):
    """Wait for so many seconds, or until the client is closed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a call is sent at most, and how long the pauses are: doubled each time, and spread by chance."""

    attempts: int = 3
    first_pause_s: float = 0.1
    pause_s_max: float = 5.0

    def pause_s(self, attempt: int, entropy: Entropy) -> float:
        """Return how long to wait after that attempt, the first of which is 1."""
        # Many clients lose the same broker at the same moment; they should not all come back at the same moment.
        longest_s = min(self.first_pause_s * 2.0 ** (attempt - 1), self.pause_s_max)
        return longest_s * (0.5 + entropy.fraction() / 2)


Steps = Generator[Exchange | Pause, Reply | Lost | None, T]


def converse(call: Call[T], server: str, patience: Patience, entropy: Entropy) -> Steps[T]:
    """Decide what happens to a call; return its result, or raise why there is none."""
    attempt = 1
    while True:
        outcome = yield Exchange(call)
        assert outcome is not None, "an exchange ends with a reply or without one"
        if isinstance(outcome, Reply) and call.is_answered_by(outcome):
            return call.read(outcome)
        if attempt >= patience.attempts or not _may_send_again(call, outcome):
            raise _error_of(outcome, server)
        pause_s = patience.pause_s(attempt, entropy)
        yield Pause(max(pause_s, min(_asked_pause_s(outcome), patience.pause_s_max)))
        attempt += 1


def _may_send_again(call: Call[T], outcome: Reply | Lost) -> bool:
    if isinstance(outcome, Lost):
        return call.is_safe or not outcome.is_sent
    # Such a refusal comes before anything is done, or says that an end is decided and takes long: whoever asks again
    # waits for the same one.
    error = error_of_reply(outcome.status, outcome.body)
    return error.retriable and isinstance(error, Throttled | Unavailable)


def _asked_pause_s(outcome: Reply | Lost) -> float:
    """Return what the broker says in Retry-After; a date there is nothing that it would write."""
    asked = outcome.headers.get("retry-after", "") if isinstance(outcome, Reply) else ""
    return float(asked) if asked.isdecimal() else 0.0


def _error_of(outcome: Reply | Lost, server: str) -> GoQueueError:
    if isinstance(outcome, Reply):
        return error_of_reply(outcome.status, outcome.body)
    if outcome.is_timeout and outcome.is_sent:
        return RequestTimedOut(f"{server} did not reply in time", hint="the request may have been carried out")
    if outcome.is_sent:
        return ServerUnreachable(
            f"{server} was lost before it replied: {outcome.reason}",
            hint="the request may have been carried out; or this is not the HTTP port of a broker",
            is_sent=True,
        )
    return ServerUnreachable(
        f"nobody answers at {server}: {outcome.reason}", hint="start a broker with `goqueue serve`, or name another"
    )
