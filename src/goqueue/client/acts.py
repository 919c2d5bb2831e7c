"""What takes several calls, decided once for both clients.

The steps are a generator that yields calls and is sent what comes of each: its result, or the error thrown into it. It
knows no socket and no thread; `carry_out` and `carry_out_async` do what it says.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.client.calls import Call
from goqueue.client.conversation import Patience
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.client import AsyncClient, Client

T = TypeVar("T")

Acts = Generator[Call[Any], Any, T]


def carry_out(client: Client, acts: Acts[T], *, patience: Patience | None = None) -> T:
    """Send all calls of the acts, one after the other; return what the acts return."""
    outcome: object = None
    with closing(acts):
        while True:
            try:
                call = _next_call(acts, outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                outcome = client.send(call, patience=patience)
            except GoQueueError as error:
                outcome = error


async def carry_out_async(client: AsyncClient, acts: Acts[T], *, patience: Patience | None = None) -> T:
    """Send all calls of the acts, one after the other; return what the acts return."""
    outcome: object = None
    with closing(acts):
        while True:
            try:
                call = _next_call(acts, outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                outcome = await client.send(call, patience=patience)
            except GoQueueError as error:
                outcome = error


def _next_call(acts: Acts[Any], outcome: object) -> Call[Any]:
    """Tell what came of the call before, be it a result or an error; return the next one."""
    return acts.throw(outcome) if isinstance(outcome, GoQueueError) else acts.send(outcome)
