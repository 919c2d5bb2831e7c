"""Small parts of the data client: addresses, how far batches reach, what codes mean, and deadlines."""

from __future__ import annotations

import pytest

from goqueue.client.kafka import Address, parse_bootstrap
from goqueue.client.kafka.batches import Extent, extent
from goqueue.client.kafka.refusals import refusal
from goqueue.client.kafka.waiting import Waiting
from goqueue.client.problems import RequestTimedOut
from goqueue.errors import (
    ConcurrentTransactions,
    CoordinatorUnavailable,
    CorruptBatch,
    Invalid,
    OutOfOrderSequence,
    ProducerFenced,
    Unavailable,
)
from goqueue.protocols.faults import TABLE
from goqueue.records.builder import NewRecord, build_batch
from goqueue.testing import ManualClock, SeededEntropy


@pytest.mark.parametrize(
    ("written", "addresses"),
    [
        ("broker", [("broker", 9092)]),
        ("a:1, b:2 ,a:1,", [("a", 1), ("b", 2)]),
        ("[::1]:9,[fe80::1%eth0]", [("::1", 9), ("fe80::1%eth0", 9092)]),
    ],
)
def test_addresses_are_read(written: str, addresses: list[tuple[str, int]]) -> None:
    assert list(parse_bootstrap(written)) == addresses


@pytest.mark.parametrize(
    "written", ["", " , ", "a:0", "a:65536", "a:x", "::1:9092", "http://a:1", "u@a:1", "[::1", ":1"]
)
def test_what_cannot_be_an_address_is_refused(written: str) -> None:
    with pytest.raises(Invalid, match="HOST:PORT"):
        parse_bootstrap(written)


def test_an_address_reads_back() -> None:
    for address in (Address("a", 1), Address("::1", 9092)):
        assert parse_bootstrap(str(address)) == (address,)


def batch(base_offset: int, count: int) -> bytearray:
    """Return a batch with that many records."""
    return build_batch([NewRecord(0, None, b"v", ())] * count, base_offset=base_offset)


def test_whole_batches_count_and_a_cut_one_does_not() -> None:
    first, second = batch(5, 3), batch(20, 2)
    both = memoryview(bytes(first + second))
    assert extent(both, 6, "it") == Extent(len(both), 22)
    for size in range(len(first), len(both)):
        assert extent(both[:size], 6, "it") == Extent(len(first), 8)
    for size in range(len(first)):
        with pytest.raises(CorruptBatch):
            extent(both[:size], 6, "it")


def test_batches_that_lead_nowhere_are_damage() -> None:
    with pytest.raises(CorruptBatch, match="no batch leads beyond it"):
        extent(memoryview(batch(5, 3)), 8, "it")
    with pytest.raises(CorruptBatch, match="no batch begins at byte"):
        extent(memoryview(batch(20, 2) + batch(5, 3)), 6, "it")


def test_codes_become_errors_that_say_whether_to_try_again() -> None:
    assert isinstance(refusal(51, "x"), ConcurrentTransactions)
    assert isinstance(refusal(16, "x"), CoordinatorUnavailable)
    assert isinstance(refusal(47, "x"), ProducerFenced)
    assert isinstance(refusal(45, "x"), OutOfOrderSequence)
    assert str(refusal(9999, "x")) == "x: the broker refused with error 9999"
    assert str(refusal(10, "x", "too much")) == "x: too much"
    assert [code for code in range(-1, 150) if refusal(code, "x").retriable] == [
        *(3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 51, 55, 56, 74, 75, 78, 89, 100)
    ]


def test_what_our_broker_calls_passing_is_tried_again() -> None:
    told = {code: refusal(fault.kafka, "x") for code, fault in TABLE.items()}
    assert told["draining"].retriable
    assert told["disk_full"].retriable
    assert isinstance(told["unavailable"], Unavailable)
    assert not told["transaction_fenced"].retriable
    assert not told["corrupt_batch"].retriable


def test_a_deadline_comes_and_stays() -> None:
    clock = ManualClock(now_ms=0)
    deadline = Waiting(clock, SeededEntropy(1)).deadline(2)
    clock.advance(1.5)
    assert deadline.require("it") == 0.5
    assert deadline.sooner(9) is deadline
    assert deadline.sooner(0.1).left_s == pytest.approx(0.1)
    clock.advance(1)
    assert deadline.is_over
    with pytest.raises(RequestTimedOut, match="it took longer than 2 s"):
        deadline.require("it")


def test_there_is_no_pause_without_time_or_after_the_end() -> None:
    waiting = Waiting(ManualClock(now_ms=0), SeededEntropy(1))
    assert not waiting.pause(1, waiting.deadline(0.001))
    waiting.close()
    assert not waiting.pause(30, waiting.deadline(60))
