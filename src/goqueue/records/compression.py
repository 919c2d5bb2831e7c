"""The codecs of record batches, with bounds.

Owns how a payload is compressed and opened again. Output is bounded while it is produced, because sizes stated in the
input are a sender's claim: `decompress` stops as soon as the output exceeds `bytes_max`, and never holds much more than
twice that; uncompressed input may have any size. It also refuses input that is cut off or followed by something else;
only xerial's framing of snappy has no end of its own, so that a cut between two blocks goes unseen here. The output
suits the strictest known reader, Kafka's own client.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct

import cramjam
import lz4.frame
import zstandard

from goqueue.errors import CorruptBatch, TooLarge
from goqueue.records.checksum import Buffer


class Codec(IntEnum):
    """How a batch's records are compressed; the value is the code in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_MAX = max(Codec)

_STEP_BYTES_MIN = 64 * 1024

_GZIP_WBITS = 31
# Each member costs a copy of the rest of the input. Producers write one; a handful covers concatenated files.
_GZIP_MEMBERS_MAX = 64

# The header of the xerial library: magic, version, and the oldest version that can read it.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = Struct(">i")
# The densest element of a snappy stream, a copy, makes 64 bytes out of 3.
_SNAPPY_RATIO_MAX = 22

# The largest window that zstd itself accepts by default, used by its highest level. The memory of a window
# that is claimed but not filled is never touched.
_ZSTD_WINDOW_BYTES_MAX = 1 << 27
_ZSTD_BLOCK_HEADER_BYTES = 3
_ZSTD_CHECKSUM_BYTES = 4
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = range(3)


def compress(codec: Codec, data: Buffer) -> bytes:
    """Return `data` as the codec's payload."""
    return _COMPRESSORS[codec](data)


def decompress(codec: Codec, data: Buffer, *, bytes_max: int) -> bytes:
    """Return the payload's content; TooLarge if that exceeds `bytes_max`, CorruptBatch if it is damaged."""
    return _DECOMPRESSORS[codec](data, bytes_max)


def _too_large(codec: Codec, bytes_max: int) -> TooLarge:
    return TooLarge(f"the {codec.name.lower()} payload opens to more than the limit of {bytes_max} bytes")


def _corrupt(codec: Codec, reason: object) -> CorruptBatch:
    return CorruptBatch(f"the {codec.name.lower()} payload is damaged: {reason}")


def _copy(data: Buffer, bytes_max: int) -> bytes:
    # It does not grow: its reader already had memory for it.
    del bytes_max
    return bytes(data)


def _gzip(data: Buffer) -> bytes:
    return zlib.compress(data, wbits=_GZIP_WBITS)


def _gunzip(data: Buffer, bytes_max: int) -> bytes:
    parts = []
    room = bytes_max
    for _ in range(_GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            part = member.decompress(data, room + 1)
        except zlib.error as error:
            raise _corrupt(Codec.GZIP, error) from None
        if len(part) > room:
            raise _too_large(Codec.GZIP, bytes_max)
        if not member.eof:
            raise _corrupt(Codec.GZIP, "it is cut off")
        parts.append(part)
        room -= len(part)
        data = member.unused_data
        if not data:
            return b"".join(parts)
    raise _corrupt(Codec.GZIP, f"it has more than {_GZIP_MEMBERS_MAX} members")


def _snappy(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: Buffer, bytes_max: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(view, bytes_max, bytes_max)
    if len(view) < len(_XERIAL_HEADER):
        raise _corrupt(Codec.SNAPPY, "its header is cut off")
    parts = []
    room = bytes_max
    position = len(_XERIAL_HEADER)
    while position < len(view):
        start = position + _BLOCK_LENGTH.size
        if start > len(view):
            raise _corrupt(Codec.SNAPPY, f"the block at byte {position} is cut off")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        if not 0 < length <= len(view) - start:
            raise _corrupt(Codec.SNAPPY, f"the block at byte {position} claims {length} of {len(view) - start} bytes")
        parts.append(_unsnappy_block(view[start : start + length], room, bytes_max))
        room -= len(parts[-1])
        position = start + length
    return b"".join(parts)


def _unsnappy_block(block: memoryview, room: int, bytes_max: int) -> bytes:
    try:
        stated = cramjam.snappy.decompress_raw_len(block)
        # The library allocates the stated size at once, so it has to be both allowed and possible.
        if stated > room:
            raise _too_large(Codec.SNAPPY, bytes_max)
        if stated > len(block) * _SNAPPY_RATIO_MAX:
            raise _corrupt(Codec.SNAPPY, f"{len(block)} bytes cannot hold the stated {stated}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt(Codec.SNAPPY, error) from None


def _lz4(data: Buffer) -> bytes:
    # Kafka's client refuses blocks that refer to earlier ones.
    return bytes(lz4.frame.compress(data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False))


def _unlz4(data: Buffer, bytes_max: int) -> bytes:
    # The library allocates a whole step before it starts, and copies the input left over after each.
    step = max(4 * len(data), _STEP_BYTES_MIN)
    parts = []
    room = bytes_max
    frame = lz4.frame.LZ4FrameDecompressor()
    rest = bytes(data)
    while True:
        try:
            part = frame.decompress(rest, max_length=min(step, room + 1))
        except RuntimeError as error:
            raise _corrupt(Codec.LZ4, error) from None
        if len(part) > room:
            raise _too_large(Codec.LZ4, bytes_max)
        parts.append(part)
        room -= len(part)
        if frame.eof:
            break
        if frame.needs_input:
            raise _corrupt(Codec.LZ4, "it is cut off")
        rest = b""
    if frame.unused_data:
        raise _corrupt(Codec.LZ4, f"{len(frame.unused_data)} bytes follow its end")
    return b"".join(parts)


def _zstd(data: Buffer) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _unzstd(data: Buffer, bytes_max: int) -> bytes:
    parts = []
    room = bytes_max
    try:
        # The library's reader ends without a word where the input ends, so the frame is measured first.
        frame_end = _zstd_frame_end(memoryview(data))
        stated = zstandard.frame_content_size(data)
        if stated > bytes_max:
            # Most senders state the right size: then nothing is decompressed twice.
            raise _too_large(Codec.ZSTD, bytes_max)
        if frame_end != len(data):
            raise _corrupt(Codec.ZSTD, f"its frame ends at byte {frame_end}, its input at byte {len(data)}")
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        with decompressor.stream_reader(data) as reader:
            step = max(4 * len(data), _STEP_BYTES_MIN)
            while part := reader.read(min(step, room + 1)):
                if len(part) > room:
                    raise _too_large(Codec.ZSTD, bytes_max)
                parts.append(part)
                room -= len(part)
    except zstandard.ZstdError as error:
        raise _corrupt(Codec.ZSTD, error) from None
    return b"".join(parts)


def _zstd_frame_end(view: memoryview) -> int:
    """Return where the frame ends according to its block headers: size, type, last-block bit."""
    parameters = zstandard.get_frame_parameters(view)
    position = zstandard.frame_header_size(view)
    is_last = False
    while not is_last:
        block_header = int.from_bytes(view[position : position + _ZSTD_BLOCK_HEADER_BYTES], "little")
        is_last = bool(block_header & 1)
        kind = block_header >> 1 & 3
        size = 1 if kind == _ZSTD_RLE else block_header >> 3
        position += _ZSTD_BLOCK_HEADER_BYTES + size
        if position > len(view) or kind > _ZSTD_COMPRESSED:
            raise _corrupt(Codec.ZSTD, "it is cut off")
    return position + (_ZSTD_CHECKSUM_BYTES if parameters.has_checksum else 0)


_COMPRESSORS: dict[Codec, Callable[[Buffer], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESSORS: dict[Codec, Callable[[Buffer, int], bytes]] = {
    Codec.NONE: _copy,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
