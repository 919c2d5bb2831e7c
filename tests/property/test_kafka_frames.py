"""However a stream of bytes is cut on its way, the same frames come out, and they never cost more than has arrived."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import MalformedRequest
from goqueue.protocols.kafka.wire.frames import BufferPool, Frames

FRAME_BYTES_MAX = 3_000_000
# Around the places where buffers change: a small one, the shared one, a large one.
SIZES = st.integers(0, 300) | st.sampled_from([0, 4092, 4096, 4097, 65_536, 1_048_572, 1_048_576, 2_097_148, 2_100_000])
STREAMS = st.lists(SIZES, min_size=1, max_size=6)
CUTS = st.lists(st.floats(0, 1), max_size=12)


def frame(number: int, size: int) -> bytes:
    """Return a frame whose content is known by its number."""
    return struct.pack(">i", size) + bytes([number % 251 + 1]) * size


def pieces(stream: bytes, cuts: Sequence[float]) -> list[bytes]:
    """Return a stream in pieces."""
    ends = sorted({int(cut * len(stream)) for cut in cuts} | {len(stream)})
    starts = [0, *ends[:-1]]
    return [stream[start:end] for start, end in zip(starts, ends, strict=True)]


def feed(frames: Frames, piece: bytes, taken: list[bytes], *, takes_max: int = 10**9) -> None:
    """Receive a piece as a transport does, in as many reads as the buffer makes of it; take frames after each."""
    while piece:
        room = frames.buffer()
        assert len(room) > 0
        part = piece[: len(room)]
        room[: len(part)] = part
        frames.received(len(part))
        piece = piece[len(part) :]
        take(frames, taken, takes_max=takes_max)


def take(frames: Frames, taken: list[bytes], *, takes_max: int = 10**9) -> None:
    """Take frames that are there, as a connection does that may have to wait with the others."""
    for _ in range(takes_max):
        found = frames.next()
        if found is None:
            break
        taken.append(bytes(found))
    frames.keep()


@settings(deadline=None)
@given(STREAMS, CUTS)
def test_any_cut_of_a_stream_gives_the_same_frames(sizes: list[int], cuts: list[float]) -> None:
    whole = [frame(number, size) for number, size in enumerate(sizes)]
    frames = Frames(BufferPool(), frame_bytes_max=FRAME_BYTES_MAX)
    taken: list[bytes] = []
    for piece in pieces(b"".join(whole), cuts):
        feed(frames, piece, taken)
    assert taken == [each[4:] for each in whole]
    assert frames.unread == 0


@settings(deadline=None)
@given(STREAMS, CUTS, st.integers(0, 2))
def test_frames_that_must_wait_are_not_lost(sizes: list[int], cuts: list[float], takes_max: int) -> None:
    whole = [frame(number, size) for number, size in enumerate(sizes)]
    frames = Frames(BufferPool(), frame_bytes_max=FRAME_BYTES_MAX)
    taken: list[bytes] = []
    for piece in pieces(b"".join(whole), cuts):
        feed(frames, piece, taken, takes_max=takes_max)
    take(frames, taken)
    assert taken == [each[4:] for each in whole]


@settings(deadline=None)
@given(st.lists(st.tuples(STREAMS, CUTS), min_size=2, max_size=4))
def test_connections_that_share_a_pool_do_not_mix(streams: list[tuple[list[int], list[float]]]) -> None:
    pool = BufferPool()
    connections = []
    for number, (sizes, cuts) in enumerate(streams):
        whole = [frame(50 * number + each, size % 5000) for each, size in enumerate(sizes)]
        frames, taken = Frames(pool, frame_bytes_max=FRAME_BYTES_MAX), list[bytes]()
        connections.append((frames, taken, whole, pieces(b"".join(whole), cuts)))
    for turn in range(max(len(each[3]) for each in connections)):
        for frames, taken, _, parts in connections:
            if turn < len(parts):
                feed(frames, parts[turn], taken)
    for _, taken, whole, _ in connections:
        assert taken == [each[4:] for each in whole]


@given(st.binary(max_size=300), CUTS)
def test_any_bytes_are_frames_or_refused(stream: bytes, cuts: list[float]) -> None:
    frames = Frames(BufferPool(), frame_bytes_max=1000)
    taken: list[bytes] = []
    try:
        for piece in pieces(stream, cuts):
            feed(frames, piece, taken)
    except MalformedRequest:
        pass
    rebuilt = b"".join(struct.pack(">i", len(each)) + each for each in taken)
    assert stream.startswith(rebuilt)


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_size_out_of_bounds_is_refused_before_a_byte_of_the_frame_has_come(size: int) -> None:
    frames = Frames(BufferPool(), frame_bytes_max=1000)
    with pytest.raises(MalformedRequest):
        feed(frames, struct.pack(">i", size), [])


def test_sizes_at_the_bounds_are_taken() -> None:
    frames = Frames(BufferPool(), frame_bytes_max=1000)
    taken: list[bytes] = []
    feed(frames, frame(0, 0) + frame(1, 1000), taken)
    assert [len(each) for each in taken] == [0, 1000]


def test_a_large_frame_takes_room_as_it_arrives() -> None:
    frames = Frames(BufferPool(), frame_bytes_max=100_000_000)
    feed(frames, struct.pack(">i", 100_000_000), [])
    rooms = []
    for _ in range(8):
        rooms.append(frames.unread + len(frames.buffer()))
        feed(frames, b"x" * len(frames.buffer()), [])
    assert all(room <= 2 * frames.unread + 4 * 1024 * 1024 for room in rooms)


def test_an_idle_connection_holds_no_buffer_of_its_own() -> None:
    pool = BufferPool()
    frames = Frames(pool, frame_bytes_max=FRAME_BYTES_MAX)
    feed(frames, frame(0, 50_000)[:100], [])
    feed(frames, frame(0, 50_000)[100:], [])
    assert frames.buffer().obj is pool.shared.obj
