"""Which partition of a topic a message goes to.

| how         | for whom                                                                                       |
|-------------|------------------------------------------------------------------------------------------------|
| murmur2     | messages with a key, by default: what Kafka's Java client does, so every client agrees         |
| murmur3     | messages with a key, where other systems hash so (MurmurHash3 x86 32 bit, seed 0)              |
| name        | groups and transactions, in the broker's own topics: what Kafka does with the hash of a string |
| round robin | messages without a key; whoever gives a whole batch one turn instead of each message is sticky |

Hashes are of the bytes of the key. A partition that the sender names is no business of this module.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

_UTF16 = Struct(">H")
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
# How to read so many words; longer keys are rare enough.
_READERS = [Struct(f"<{count}I").unpack_from for count in range(33)]

_MURMUR2_SEED = 0x9747B28C
_MURMUR2_M = 0x5BD1E995
_MURMUR3_C1 = 0xCC9E2D51
_MURMUR3_C2 = 0x1B873593


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's Java client would choose for a key."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur3_partition(key: bytes, partitions: int) -> int:
    """Return the partition that the 32-bit MurmurHash3 of a key chooses."""
    return (murmur3(key) & _POSITIVE) % partitions


@lru_cache(maxsize=4096)
def name_partition(name: str, partitions: int) -> int:
    """Return the partition that Kafka chooses for the name of a group or a transaction."""
    hashed = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for (unit,) in _UTF16.iter_unpack(units):
        hashed = (hashed * 31 + unit) & _MASK
    signed = hashed - (1 << 32) if hashed > _POSITIVE else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


class RoundRobin:
    """Takes partitions in turn, from 0 on; their number may change on the way."""

    __slots__ = ("_turn",)

    def __init__(self) -> None:
        self._turn = -1

    def next_partition(self, partitions: int) -> int:
        """Return whose turn it is."""
        self._turn = (self._turn + 1) % partitions
        return self._turn


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 with Kafka's seed, without a sign."""
    size = len(data)
    tail = size & 3
    h = _MURMUR2_SEED ^ size
    for word in _words(data, size >> 2):
        k = word * _MURMUR2_M & _MASK
        h = (h * _MURMUR2_M & _MASK) ^ ((k ^ k >> 24) * _MURMUR2_M & _MASK)
    if tail:
        h = (h ^ int.from_bytes(data[size - tail :], "little")) * _MURMUR2_M & _MASK
    h = (h ^ h >> 13) * _MURMUR2_M & _MASK
    return h ^ h >> 15


def murmur3(data: bytes, seed: int = 0) -> int:
    """Return the 32-bit MurmurHash3 (x86 variant), without a sign."""
    size = len(data)
    tail = size & 3
    h = seed
    for word in _words(data, size >> 2):
        h = _rotated(h ^ _scrambled(word), 13) * 5 + 0xE6546B64 & _MASK
    if tail:
        h ^= _scrambled(int.from_bytes(data[size - tail :], "little"))
    h ^= size
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _words(data: bytes, count: int) -> tuple[int, ...]:
    return _READERS[count](data) if count < len(_READERS) else Struct(f"<{count}I").unpack_from(data)


def _scrambled(k: int) -> int:
    return _rotated(k * _MURMUR3_C1 & _MASK, 15) * _MURMUR3_C2 & _MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK
