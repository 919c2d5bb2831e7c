"""Many varints at once: zigzag numbers of 7 bits a byte, at positions given as an array.

Owns reading and writing them without a Python object per number. A byte with its high bit set is followed by another
one. The four bytes from each position on are taken as one word, and the numbers are made of all words together with a
handful of bit operations; the few that are longer than a word are read byte by byte, again all together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from goqueue.errors import CorruptBatch

Octets = NDArray[np.uint8]
Numbers = NDArray[np.int64]

VARINT_BITS = 32
VARLONG_BITS = 64
# # The most bytes that are read for a number.
READ_BYTES_MAX = 10

_MORE = 0x80
_LOW_BITS = 0x7F

_WORD_BYTES = 4
_WORD_MORE = np.uint32(0x80808080)
# Where 7 bits of each byte of a word lie, once the gaps between them are closed.
_WORD_SEVENS = [np.uint32(_LOW_BITS << 7 * index) for index in range(_WORD_BYTES)]
# A number takes one byte, and one more for each bound that it reaches.
_SIZE_BOUNDS = [np.uint64(1 << bits) for bits in range(7, 64, 7)]


def read(octets: Octets, positions: Numbers, *, bits: int = VARINT_BITS) -> tuple[Numbers, Numbers]:
    """Return the numbers at the positions, and where each ends; CorruptBatch if one exceeds `bits` bits.

    There must be `READ_BYTES_MAX` bytes after each position. A longer form than needed is read.
    """
    words = np.ndarray((len(octets) - _WORD_BYTES + 1,), "<u4", octets, strides=(1,))[positions]
    stops = ~words & _WORD_MORE
    # All bits up to the first byte without the high bit, that one included; all bits of the word if there is none.
    mask = stops ^ (stops - np.uint32(1))
    words &= mask
    zigzag = words & _WORD_SEVENS[0]
    for index in range(1, _WORD_BYTES):
        zigzag |= words >> np.uint32(index) & _WORD_SEVENS[index]
    numbers = ((zigzag >> np.uint32(1)).view(np.int32) ^ -(zigzag & np.uint32(1)).view(np.int32)).astype(np.int64)
    ends = positions + (np.bitwise_count(mask) >> np.uint8(3))
    if not stops.all():
        longer = np.flatnonzero(stops == 0)
        numbers[longer], ends[longer] = _read_long(octets, positions[longer], bits)
    return numbers, ends


def zigzag_of(numbers: Numbers) -> NDArray[np.uint64]:
    """Return the numbers with their sign in the lowest bit, as they are written."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def sizes_of(zigzag: NDArray[np.uint64]) -> Numbers:
    """Return how many bytes the shortest form of each number takes."""
    sizes = np.ones(len(zigzag), np.int64)
    largest = zigzag.max(initial=0)
    for bound in _SIZE_BOUNDS:
        if largest < bound:
            break
        sizes += zigzag >= bound
    return sizes


def write(octets: Octets, positions: Numbers, zigzag: NDArray[np.uint64], sizes: Numbers) -> None:
    """Write the numbers at the positions in their shortest form, whose sizes are `sizes_of` them."""
    octets[positions] = _octet(zigzag, sizes, 0)
    for index in range(1, int(sizes.max(initial=1))):
        rows = np.flatnonzero(sizes > index)
        octets[positions[rows] + index] = _octet(zigzag[rows], sizes[rows], index)


def _octet(zigzag: NDArray[np.uint64], sizes: Numbers, index: int) -> Octets:
    low = (zigzag >> np.uint64(7 * index)).astype(np.uint8) & np.uint8(_LOW_BITS)
    return low | (sizes > index + 1).view(np.uint8) << np.uint8(7)


def _read_long(octets: Octets, positions: Numbers, bits: int) -> tuple[Numbers, Numbers]:
    zigzag = np.zeros(len(positions), np.uint64)
    ends = positions.copy()
    more = np.arange(len(positions))
    for shift in range(0, bits, 7):
        byte = octets[ends[more]]
        if shift + 7 > bits and (byte >> (bits - shift)).any():
            break
        zigzag[more] |= (byte & _LOW_BITS).astype(np.uint64) << np.uint64(shift)
        ends[more] += 1
        more = more[byte >= _MORE]
        if not len(more):
            return (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64), ends
    raise CorruptBatch(f"a number exceeds {bits} bits")
