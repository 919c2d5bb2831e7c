"""Partitioners: the same key goes where other clients send it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.partitioners import RoundRobin, murmur2, murmur2_partition, murmur3, murmur3_partition


# From the tests of Kafka's Java client, where they are signed.
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_what_the_java_client_gives(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32


@given(st.binary(max_size=70))
def test_murmur2_agrees_with_aiokafka_on_every_key(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) % 2**32


@given(st.binary(max_size=70), st.integers(1, 300))
def test_a_key_goes_to_the_partition_that_aiokafka_chooses(key: bytes, partitions: int) -> None:
    everything = list(range(partitions))
    assert murmur2_partition(key, partitions) == DefaultPartitioner()(key, everything, everything)


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65", 0, 0x7E4A8634),
        (b"\x21\x43", 0, 0xA0F7B07A),
        (b"\x21", 0, 0x72661CF4),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
        (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    ],
)
def test_murmur3_gives_the_published_values(data: bytes, seed: int, expected: int) -> None:
    assert murmur3(data, seed) == expected


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_hash_always_names_a_partition_that_exists(key: bytes, partitions: int) -> None:
    assert 0 <= murmur2_partition(key, partitions) < partitions
    assert 0 <= murmur3_partition(key, partitions) < partitions


@pytest.mark.parametrize("choose", [murmur2_partition, murmur3_partition])
def test_keys_spread_over_all_partitions(choose: Callable[[bytes, int], int]) -> None:
    counts = Counter(choose(f"user-{number}".encode(), 8) for number in range(8000))
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1.2 * min(counts.values())


def test_round_robin_takes_every_partition_in_turn() -> None:
    turns = RoundRobin()
    assert [turns.next_partition(3) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_round_robin_goes_on_when_a_topic_has_grown_or_is_a_smaller_one() -> None:
    turns = RoundRobin()
    assert [turns.next_partition(2), turns.next_partition(2), turns.next_partition(4), turns.next_partition(1)] == [
        0,
        1,
        2,
        0,
    ]
