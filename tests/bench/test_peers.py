"""The comparison with peers: the order changes, work that failed does not count, and medians are of rounds."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from goqueue_bench.cpu import Usage
from goqueue_bench.machine import describe
from goqueue_bench.measure import BenchmarkFailed
from goqueue_bench.peers.amqp import CountConfirms
from goqueue_bench.peers.peer import Durability, Measured, Workload
from goqueue_bench.peers.report import report, summarise, table
from goqueue_bench.peers.rounds import Comparison, Plan, Sample, wait_for_quiet, warm_up

PLAN = Plan(rounds=3, warm_up_seconds=1, publish_seconds=2, latency_seconds=1, seed=1)


def took(
    messages: int, seconds: float, server: float = 0.5, latencies: tuple[float, ...] = (), *, others: float = 0.0
) -> Measured:
    usage = Usage()
    usage.other_cores = others
    usage.seconds, usage.server_cpu_seconds, usage.client_cpu_seconds = seconds, server, 0.25
    return Measured(messages, usage, latencies)


class SteadyPeer:
    """A peer in this process that always needs the same time for a message, and fails when told to."""

    clients: Mapping[Workload, str] = {Workload.PUBLISH: "bulk", Workload.LATENCY: "single", Workload.QUEUE: "leases"}

    def __init__(
        self,
        name: str,
        per_second: int,
        story: list[str],
        *,
        fails_after: int | None = None,
        loads: Iterator[float] | None = None,
    ) -> None:
        self.name = name
        self.settings = {Durability.LAZY: "lazily", Durability.FSYNC: "durably"}
        self._per_second = per_second
        self._story = story
        self._fails_after = fails_after
        self._loads = loads
        self._load = 0.0

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return "1.2"

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[SteadyPeer]:
        assert list(directory.iterdir()) == []
        self._story.append(f"{self.name} {durability}")
        self._load = next(self._loads) if self._loads else 0.0
        yield self

    def publish(self, count: int) -> Measured:
        if self._fails_after is not None:
            self._fails_after -= 1
            if self._fails_after < 0:
                raise BenchmarkFailed("a message was refused")
        return took(count, count / self._per_second, others=self._load)

    def latency(self, count: int) -> Measured:
        return took(count, count / self._per_second, latencies=(1.0, 2.0))

    def replays(self) -> Mapping[str, Callable[[], Measured]]:
        return {"reader": lambda: took(1000, 0.5)}

    def queue(self, count: int) -> Measured:
        return took(count, count / self._per_second)


def compare(*peers: SteadyPeer, directory: Path) -> Comparison:
    comparison = Comparison(peers, PLAN, lambda _: None)
    comparison.run(directory)
    return comparison


def test_every_round_has_every_peer_in_both_groups_in_another_order(tmp_path: Path) -> None:
    story: list[str] = []
    compare(*(SteadyPeer(name, 10_000, story) for name in "abc"), directory=tmp_path)
    rounds = [story[start : start + 6] for start in range(0, 18, 6)]
    everyone = {f"{name} {durability}" for name in "abc" for durability in ("lazy", "fsync")}
    assert [set(each) for each in rounds] == [everyone] * 3
    assert len({tuple(each) for each in rounds}) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_fast_peer_gets_more_to_do_and_replay_is_of_the_lazy_group_only(tmp_path: Path) -> None:
    comparison = compare(SteadyPeer("fast", 100_000, []), SteadyPeer("slow", 5_000, []), directory=tmp_path)
    rows = {(row["peer"], row["workload"], row["durability"]): row for row in summarise(comparison.samples)}
    assert rows["fast", "publish", "lazy"]["messages"] == [200_000] * 3
    assert rows["slow", "publish", "fsync"]["messages"] == [10_000] * 3
    assert rows["slow", "replay", "lazy"]["client"] == "reader"
    assert ("slow", "replay", "fsync") not in rows


def test_messages_are_leased_and_acked_in_both_groups_if_a_peer_can(tmp_path: Path) -> None:
    plain = SteadyPeer("plain", 5_000, [])
    plain.clients = {Workload.PUBLISH: "bulk", Workload.LATENCY: "single"}
    comparison = compare(SteadyPeer("queue", 5_000, []), plain, directory=tmp_path)
    rows = [row for row in summarise(comparison.samples) if row["workload"] == "queue"]
    assert [(row["peer"], row["durability"], row["client"]) for row in rows] == [
        ("queue", "fsync", "leases"),
        ("queue", "lazy", "leases"),
    ]
    # Two seconds of them.
    assert rows[0]["messages"] == [10_000] * 3


@pytest.mark.parametrize(
    ("loads", "kept"), [([0.0], 0.0), ([1.9, 0.1], 0.1), ([1.9, 1.5, 1.8], 1.5)], ids=["quiet", "once", "always"]
)
def test_a_disturbed_peer_is_measured_again_and_the_quietest_attempt_counts(
    tmp_path: Path, loads: list[float], kept: float
) -> None:
    story: list[str] = []
    peer = SteadyPeer("a", 10_000, story, loads=iter(loads))
    peer.settings = {Durability.LAZY: "lazily"}
    comparison = Comparison([peer], Plan(rounds=1, publish_seconds=2, attempts=3), lambda _: None)
    comparison.run(tmp_path)
    assert len(story) == len(loads)
    (bulk,) = (sample for sample in comparison.samples if sample.workload is Workload.PUBLISH)
    assert bulk.measured.usage.other_cores == kept


def test_a_peer_that_fails_in_any_round_is_left_out_and_named(tmp_path: Path) -> None:
    bad = SteadyPeer("bad", 10_000, [], fails_after=7)
    good = SteadyPeer("good", 10_000, [])
    comparison = compare(good, bad, directory=tmp_path)
    assert comparison.failed == {"bad": "a message was refused"}
    document = report(describe(tmp_path), PLAN, [good, bad], comparison.samples, comparison.failed)
    assert document["left_out"] == {"bad": "a message was refused"}
    assert set(document["peers"]) == {"good"}
    assert {row["peer"] for row in document["results"]} == {"good"}
    assert "Left out: bad: a message was refused" in table(document)


def test_a_row_has_the_median_of_the_rounds_and_their_range() -> None:
    def sample(seconds: float, server: float) -> Sample:
        measured = took(1_000_000, seconds, server, (0.5, 1.5))
        return Sample("a", Durability.LAZY, Workload.LATENCY, "single", measured)

    (row,) = summarise([sample(1.0, 0.1), sample(4.0, 0.3), sample(2.0, 0.2)])
    assert row["msgs_per_s"] == {"median": 500_000, "min": 250_000, "max": 1_000_000}
    assert row["server_cpu_us_per_msg"] == {"median": 0.2, "min": 0.1, "max": 0.3}
    assert row["p50_ms"]["median"] == 0.5
    assert row["p99_ms"]["median"] == 1.5


def test_a_bulk_has_no_latency() -> None:
    (row,) = summarise([Sample("a", Durability.LAZY, Workload.PUBLISH, "bulk", took(10, 1.0))])
    assert "p50_ms" not in row


def test_a_warm_up_lasts_as_long_as_asked_and_tells_the_last_rate() -> None:
    spent = 0.0

    def work(count: int) -> Measured:
        nonlocal spent
        # Slow at first, as a program that is compiled while it runs.
        seconds = count / (1_000 if spent < 0.5 else 50_000)
        spent += seconds
        return took(count, seconds)

    assert warm_up(work, 100, 2.0) == 50_000
    assert 2.0 <= spent < 4.0


@pytest.mark.parametrize(
    ("loads", "is_quiet", "waited"),
    [([0.0, 0.1, 0.0], True, 3), ([0.0, 0.0, 1.9, 0.0, 0.0, 0.0], True, 6), ([0.5] * 10, False, 10)],
)
def test_patience_ends_with_three_quiet_seconds_in_a_row(loads: list[float], is_quiet: bool, waited: int) -> None:
    busy = itertools.accumulate([0.0, *loads])
    slept: list[float] = []
    assert wait_for_quiet(10, lambda: next(busy), slept.append) is is_quiet
    assert sum(slept) == waited


def confirm(tag: int, *, is_multiple: bool = False, method: int = 80) -> bytes:
    payload = struct.pack(">HHQB", 60, method, tag, is_multiple)
    return struct.pack(">BHI", 1, 1, len(payload)) + payload + b"\xce"


def test_confirms_of_many_and_of_one_count_each_message_once() -> None:
    count = CountConfirms(first_tag=1)
    assert count(confirm(2)) == 1
    assert count(confirm(4)) == 1
    assert count(confirm(5, is_multiple=True)) == 3
    assert count(confirm(6) + confirm(8, is_multiple=True)) == 3


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_confirm_counts_when_all_of_it_is_there(cut: int) -> None:
    count = CountConfirms(first_tag=1)
    data = confirm(3, is_multiple=True)
    assert count(data[:cut]) == 0
    assert count(data[cut:]) == 3


def test_a_refused_message_fails_the_peer() -> None:
    with pytest.raises(BenchmarkFailed, match="refuses"):
        CountConfirms(first_tag=1)(confirm(1, method=120))
