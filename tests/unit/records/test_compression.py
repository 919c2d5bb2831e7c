"""Payload codecs: bounded while they open, strict about where the input ends."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from goqueue.errors import CorruptBatch, GoQueueError, TooLarge
from goqueue.records.compression import Codec, compress, decompress

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
CONTENTS = [b"", b"x", bytes(range(256)) * 10, b"words and words " * 20_000]
MIB = 1024 * 1024
BOMB_MIB = 200

# The address space may grow by a multiple of the limit, but by far less than the bomb holds.
OPEN_WITH_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from goqueue.errors import TooLarge
from goqueue.records.compression import Codec, decompress
bomb = sys.stdin.buffer.read()
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), resource.RLIM_INFINITY))
try:
    decompress(Codec[sys.argv[1]], bomb, bytes_max=8 << 20)
except TooLarge:
    sys.stdout.write("refused")
"""


def bomb_of_zeros(codec: Codec) -> bytes:
    chunk = bytes(MIB)
    if codec is Codec.SNAPPY:
        framed = compress(codec, chunk)
        return framed[:16] + framed[16:] * BOMB_MIB
    if codec is Codec.GZIP:
        gzip = zlib.compressobj(wbits=31)
        return b"".join([gzip.compress(chunk) for _ in range(BOMB_MIB)]) + gzip.flush()
    if codec is Codec.LZ4:
        frame = lz4.frame.LZ4FrameCompressor()
        parts = [frame.begin(), *(frame.compress(chunk) for _ in range(BOMB_MIB)), frame.flush()]
        return b"".join(parts)
    zstd = zstandard.ZstdCompressor().compressobj()
    return b"".join([zstd.compress(chunk) for _ in range(BOMB_MIB)]) + zstd.flush()


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("content", CONTENTS)
def test_content_survives_every_codec_at_exactly_its_own_limit(codec: Codec, content: bytes) -> None:
    payload = compress(codec, content)
    for buffer in (payload, bytearray(payload), memoryview(payload)):
        assert decompress(codec, buffer, bytes_max=len(content)) == content


def test_what_is_not_compressed_may_be_of_any_size() -> None:
    assert decompress(Codec.NONE, CONTENTS[2], bytes_max=1) == CONTENTS[2]


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("content", CONTENTS[1:])
def test_one_byte_over_the_limit_is_too_large(codec: Codec, content: bytes) -> None:
    with pytest.raises(TooLarge, match=str(len(content) - 1)):
        decompress(codec, compress(codec, content), bytes_max=len(content) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("tail", [b"\x00", b"garbage"])
def test_bytes_after_the_end_are_corrupt(codec: Codec, tail: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, CONTENTS[2]) + tail, bytes_max=MIB)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_payload_cut_anywhere_is_refused(codec: Codec) -> None:
    payload = compress(codec, CONTENTS[2])
    # After its header of 16 bytes, a xerial stream may end between any two blocks.
    cuts = set(range(len(payload))) - ({16} if codec is Codec.SNAPPY else set())
    for cut in cuts:
        with pytest.raises(GoQueueError):
            decompress(codec, payload[:cut], bytes_max=MIB)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and an enforced limit of address space")
@pytest.mark.parametrize("codec", COMPRESSING)
def test_bomb_is_refused_without_the_memory_it_asks_for(codec: Codec) -> None:
    command = [sys.executable, "-c", OPEN_WITH_LITTLE_MEMORY, codec.name]
    done = subprocess.run(command, input=bomb_of_zeros(codec), capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (b"refused", b"")


def test_zstd_frame_that_states_its_size_is_bounded_all_the_same() -> None:
    payload = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(4 * MIB))
    assert zstandard.frame_content_size(payload) == 4 * MIB
    with pytest.raises(TooLarge):
        decompress(Codec.ZSTD, payload, bytes_max=MIB)


def test_zstd_with_checksum_or_without_stated_size_is_read() -> None:
    writer = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False)
    payload = writer.compress(CONTENTS[3])
    assert decompress(Codec.ZSTD, payload, bytes_max=MIB) == CONTENTS[3]
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, payload[:-4], bytes_max=MIB)


def test_gzip_of_several_members_is_their_concatenation() -> None:
    payload = compress(Codec.GZIP, b"one ") + compress(Codec.GZIP, b"two")
    assert decompress(Codec.GZIP, payload, bytes_max=7) == b"one two"
    with pytest.raises(TooLarge):
        decompress(Codec.GZIP, payload, bytes_max=6)


def test_gzip_of_endlessly_many_members_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="members"):
        decompress(Codec.GZIP, compress(Codec.GZIP, b"") * 1000, bytes_max=MIB)


def test_raw_snappy_as_librdkafka_writes_it_is_read() -> None:
    payload = bytes(cramjam.snappy.compress_raw(CONTENTS[3]))
    assert decompress(Codec.SNAPPY, payload, bytes_max=MIB) == CONTENTS[3]
    with pytest.raises(TooLarge):
        decompress(Codec.SNAPPY, payload, bytes_max=len(CONTENTS[3]) - 1)


def test_snappy_that_states_an_impossible_size_is_corrupt() -> None:
    payload = b"\x80\x80\x80\x10" + os.urandom(20)
    with pytest.raises(CorruptBatch, match="cannot hold"):
        decompress(Codec.SNAPPY, payload, bytes_max=64 * MIB)


@pytest.mark.parametrize("length", [-1, 0, 2**31 - 1])
def test_xerial_block_of_impossible_length_is_corrupt(length: int) -> None:
    payload = compress(Codec.SNAPPY, b"")[:16] + length.to_bytes(4, "big", signed=True) + b"\x01\x00x"
    with pytest.raises(CorruptBatch, match=f"claims {length}"):
        decompress(Codec.SNAPPY, payload, bytes_max=MIB)


def test_lz4_is_written_with_independent_blocks_as_kafkas_client_demands() -> None:
    assert not lz4.frame.get_frame_info(compress(Codec.LZ4, CONTENTS[3]))["block_linked"]
