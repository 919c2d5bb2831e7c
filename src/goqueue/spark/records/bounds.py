"""Finds the starts of the records in a payload: the one step that cannot be computed for all records at once.

Each record begins with its length, so the next one is found only through the one before. Neighbours mostly have the
same length: a run of them is verified in one comparison. Where lengths vary, a loop goes from record to record and
does nothing else; it tries for a run again ever more rarely.
"""

from __future__ import annotations

import numpy as np

from goqueue.errors import CorruptBatch
from goqueue.spark.records.varints import Numbers, Octets

# Below this number of records, setting up a comparison costs more than it saves.
_RUN_MIN = 24
_RUN_PROBE = 64
_WALK_MIN = 64
_WALK_MAX = 8192
_LENGTH_BYTES_MAX = 5
# length, attributes, timestamp, offset, key length, value length, header count
_RECORD_BYTES_MIN = 7

# How far it is to the next record, by the first two bytes of this one; 0 if its length takes more than two bytes.
_STEPS = [
    [1 + (first >> 1)] * 256
    if first < 0x80
    else [2 + ((second << 7 | first & 0x7F) >> 1) if second < 0x80 else 0 for second in range(256)]
    for first in range(256)
]


def record_bounds(payload: bytes, count: int) -> Numbers:
    """Return where each of `count` records begins and, as the last number, where the last one ends.

    CorruptBatch unless the records fill the payload. Lengths are followed, not checked: the parser of the fields
    refuses negative ones.
    """
    if count * _RECORD_BYTES_MIN > len(payload):
        raise CorruptBatch(f"{len(payload)} bytes cannot hold {count} records")
    try:
        bounds = (
            _all_bounds(payload, count) if count >= _RUN_MIN else np.array([0, *_walk(payload, 0, count)], np.int64)
        )
    except IndexError:
        raise CorruptBatch(f"a record goes beyond the {len(payload)} bytes of all {count} records") from None
    if bounds[count] != len(payload):
        raise CorruptBatch(f"the {count} records end at byte {bounds[count]} of {len(payload)}")
    return bounds


def _all_bounds(payload: bytes, count: int) -> Numbers:
    octets = np.frombuffer(payload, np.uint8)
    bounds = np.empty(count + 1, np.int64)
    bounds[0] = found = 0
    walk = _WALK_MIN
    while found < count:
        position = int(bounds[found])
        run = 0
        if count - found >= _RUN_MIN:
            size, run = _run(payload, octets, position, count - found)
            bounds[found + 1 : found + 1 + run] = np.arange(position + size, position + size * run + 1, size)
            found += run
        if run < _RUN_MIN:
            steps = min(walk, count - found)
            bounds[found + 1 : found + 1 + steps] = _walk(payload, int(bounds[found]), steps)
            found += steps
            walk = min(2 * walk, _WALK_MAX)
        else:
            walk = _WALK_MIN
    return bounds


def _run(payload: bytes, octets: Octets, position: int, count: int) -> tuple[int, int]:
    """Return the size of the record at the position, and how many from there on begin with the very same length."""
    (end,) = _walk(payload, position, 1)
    size = end - position
    width = 1
    while payload[position + width - 1] >= 0x80:
        width += 1
    fitting = min(count, (len(payload) - position) // size)
    run = 1
    probe = _RUN_PROBE
    while run < fitting:
        step = min(probe, fitting - run)
        start = position + run * size
        rows = octets[start : start + step * size].reshape(step, size)
        same = rows[:, 0] == payload[position]
        for column in range(1, width):
            same &= rows[:, column] == payload[position + column]
        alike = step if same.all() else int(same.argmin())
        run += alike
        if alike < step:
            break
        probe *= 8
    return size, min(run, fitting)


def _walk(payload: bytes, position: int, steps: int) -> list[int]:
    """Return where the next records end; IndexError if one begins beyond the payload."""
    start = position
    # The tightest loop there is; it stands still at a length of more than two bytes.
    ends = [position := position + _STEPS[payload[position]][payload[position + 1]] for _ in range(steps)]
    if ends and (ends[-1] == start or (steps > 1 and ends[-1] == ends[-2])):
        return _walk_long(payload, start, steps)
    return ends


def _walk_long(payload: bytes, position: int, steps: int) -> list[int]:
    ends = []
    for _ in range(steps):
        position += _STEPS[payload[position]][payload[position + 1]] or _long_step(payload, position)
        ends.append(position)
    return ends


def _long_step(payload: bytes, position: int) -> int:
    length = 0
    for index in range(_LENGTH_BYTES_MAX):
        byte = payload[position + index]
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return index + 1 + (length >> 1)
    raise CorruptBatch(f"the length of a record at byte {position} exceeds 32 bits")
