"""A worker at work, on virtual time: when it asks a broker again that was away, and what it does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from goqueue.client import AsyncClient, Message, QueueMessage, Received, SettledMessage
from goqueue.client.calls import Call
from goqueue.client.conversation import Patience
from goqueue.client.problems import ServerUnreachable, error_of_reply
from goqueue.client.worker_crew import Crew, Work
from goqueue.client.worker_options import WorkerOptions
from goqueue.client.worker_script import WorkerScript
from goqueue.client.worker_values import LoopBlocked, WorkerStats
from goqueue.errors import GoQueueError, StaleReceipt, UnknownTopic
from goqueue.testing import RecordingSink, SimLoop, Simulation, simulate

ROUND_TRIP_S = 0.001
BACK_AT = 60.0


class Line:
    """A client, and the broker that it reaches unless that `is_away`: leases end there, whatever happens here."""

    def __init__(self, visibility_s: float) -> None:
        self.is_away: Callable[[float], bool] = lambda _: False
        self.refusals: dict[str, GoQueueError] = {}
        # When messages are there to be received.
        self.coming: list[float] = [0.0]
        self.asked: list[tuple[str, float]] = []
        self._visibility_s = visibility_s
        self._deadlines: dict[str, float] = {}

    async def send(self, call: Call[Any], *, patience: Patience | None = None) -> object:
        """Answer as a broker does that knows of leases and of nothing else."""
        del patience
        await asyncio.sleep(ROUND_TRIP_S)
        now, act = asyncio.get_running_loop().time(), call.path.rpartition("/")[2]
        self.asked.append((act, now))
        if self.is_away(now):
            raise ServerUnreachable("nobody")
        if act in self.refusals:
            raise self.refusals[act]
        if act == "receive":
            return await self._receive(call.wait_s)
        return [self._fate(act, receipt) for receipt in msgspec.json.decode(call.body or b"")["receipt_handles"]]

    async def _receive(self, wait_s: float) -> Received:
        loop = asyncio.get_running_loop()
        if not self.coming or self.coming[0] > loop.time() + wait_s:
            await asyncio.sleep(wait_s)
            return Received([], "")
        await asyncio.sleep(max(0.0, self.coming[0] - loop.time()))
        number = int(self.coming.pop(0) * 1000)
        self._deadlines[f"receipt-{number}"] = loop.time() + self._visibility_s
        return Received([QueueMessage(Message("orders", 0, number, 0, None, b"", ()), f"receipt-{number}", 1, 0)], "")

    def _fate(self, act: str, receipt: str) -> SettledMessage | GoQueueError:
        now = asyncio.get_running_loop().time()
        if self._deadlines.pop(receipt, 0.0) < now:
            return StaleReceipt("gone")
        if act == "visibility":
            self._deadlines[receipt] = now + self._visibility_s
            return SettledMessage("leased", None)
        return SettledMessage("done", None)

    def after(self, moment: float) -> dict[str, float]:
        """Return when each act was asked for first, from a moment on."""
        first: dict[str, float] = {}
        for act, at in self.asked:
            if at >= moment:
                first.setdefault(act, at)
        return first


def work(line: Line, handler: Work, until: float, seed: int, **options: Any) -> tuple[WorkerStats, RecordingSink]:
    """Have a worker run until a moment; return what it has done and told."""
    sink = RecordingSink()

    async def main(simulation: Simulation) -> WorkerStats:
        given: WorkerOptions = {"sink": sink, **options}  # type: ignore[typeddict-item]
        script = WorkerScript("billing", ["orders"], given, simulation.clock, simulation.entropy)
        crew = Crew(script, handler, is_cancellable=True)
        asyncio.get_running_loop().call_at(until, crew.stop)
        await crew.run(cast(AsyncClient, line))
        return script.stats

    return simulate(main, seed), sink


@pytest.mark.seeds(20, long_count=200)
@pytest.mark.parametrize("takes_s", [4.0, 9.0], ids=["ends while it is away", "runs on"])
def test_a_lease_outlives_a_broker_that_is_away_for_less_than_what_is_left_of_it(seed: int, takes_s: float) -> None:
    line = Line(visibility_s=5)
    line.is_away = lambda now: 2.5 < now < 5.9

    async def handle(_: QueueMessage) -> None:
        await asyncio.sleep(takes_s)

    stats, _ = work(line, handle, 12, seed, visibility_s=5)
    assert (stats.done, stats.lost, stats.unknown) == (1, 0, 0)


@pytest.mark.seeds(20, long_count=200)
def test_the_first_answer_of_a_broker_that_is_back_ends_all_pauses(seed: int) -> None:
    line = Line(visibility_s=120)
    line.is_away = lambda now: 1 < now < 60
    line.coming = [0.0, 0.5, 30.0]

    async def handle(message: QueueMessage) -> None:
        # One ends while the broker is away; one is running when it is back, and its lease is due.
        await asyncio.sleep(10 if message.message.offset == 0 else 90)

    work(line, handle, 70, seed, visibility_s=120)
    back = line.after(60)
    assert set(back) == {"ack", "visibility", "receive"}
    assert max(back.values()) - min(back.values()) <= 3 * ROUND_TRIP_S


@pytest.mark.seeds(10, long_count=100)
@pytest.mark.parametrize("is_proxied", [False, True])
def test_a_refusal_of_the_broker_tells_as_well_that_it_is_back(seed: int, is_proxied: bool) -> None:
    line = Line(visibility_s=120)
    line.is_away = lambda now: not is_proxied and 1 < now < 60
    line.coming = [0.0]

    def come_back() -> None:
        line.refusals = {"receive": UnknownTopic("it is gone")}

    async def handle(_: QueueMessage) -> None:
        if is_proxied:
            # Somebody in between says that there is no broker.
            line.refusals = dict.fromkeys(("ack", "receive", "visibility"), error_of_reply(502, b"nobody"))
        asyncio.get_running_loop().call_at(BACK_AT, come_back)
        await asyncio.sleep(10)

    work(line, handle, 70, seed, visibility_s=120)
    back = line.after(BACK_AT)
    assert back["ack"] - back["receive"] <= 3 * ROUND_TRIP_S


@pytest.mark.seeds(5, long_count=50)
def test_pauses_are_not_ended_because_nothing_was_to_be_renewed(seed: int) -> None:
    line = Line(visibility_s=3)
    line.is_away = lambda _: True

    async def handle(_: QueueMessage) -> None:
        pass

    work(line, handle, 60, seed, visibility_s=3)
    # At first they are short, and then 2.5 s at least.
    assert sum(at > 10 for _, at in line.asked) <= 20


@pytest.mark.seeds(5, long_count=50)
def test_a_request_that_is_refused_is_not_repeated_whenever_another_one_succeeds(seed: int) -> None:
    line = Line(visibility_s=60)
    line.coming = [number / 50 for number in range(900)]
    line.refusals["ack"] = error_of_reply(403, b"no")

    async def handle(_: QueueMessage) -> None:
        pass

    stats, _ = work(line, handle, 20, seed, visibility_s=60)
    assert stats.received == 900
    assert sum(act == "ack" for act, _ in line.asked) < 20


@pytest.mark.seeds(5, long_count=50)
@pytest.mark.parametrize(("blocked_s", "told_s"), [(19.0, []), (25.0, [15.0])], ids=["a little", "for long"])
def test_a_handler_that_blocks_the_loop_so_that_renewals_come_late_is_told_once(
    seed: int, blocked_s: float, told_s: list[float]
) -> None:
    line = Line(visibility_s=30)

    async def handle(_: QueueMessage) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        # Time passes, and nobody else can do anything meanwhile.
        loop._now += blocked_s
        await asyncio.sleep(20)

    stats, sink = work(line, handle, 60, seed, visibility_s=30)
    assert [round(event.seconds, 1) for event in sink.of(LoopBlocked)] == told_s
    assert stats.done == 1
