"""Whatever bytes arrive as a request, they are read or refused, never anything else, and never at a great price."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from goqueue.errors import InvalidAcks, MalformedRequest
from goqueue.kafka_wire.decode import Cursor, decode_request, skip_tags
from goqueue.protocols.kafka.api.messages.produce import parse
from goqueue.protocols.kafka.apis import PRODUCE
from tests.protocols.kafka.generate import OFFERED, message
from tests.protocols.kafka.messages import members, request_bytes, request_class
from tests.protocols.kafka.stub import NO_TOPICS

HUGE_COUNTS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x00\x00\x00", b"\x7f\xff")
# What reading may cost beside the request itself; a request of these tests has a few hundred bytes.
PRICE_BYTES_MAX = 200_000


def read(key: int, version: int, data: bytes) -> Any:
    """Read a request as a connection does, Produce included."""
    if key == PRODUCE:
        return parse(NO_TOPICS, version, Cursor(memoryview(bytearray(data))))
    return decode_request(key, version, Cursor(data))


def survives(key: int, version: int, data: bytes) -> None:
    """Read a request, which may be refused, but only as malformed."""
    try:
        read(key, version, data)
    except MalformedRequest:
        return


def samples(random: Random) -> Iterator[tuple[int, int, bytes]]:
    """Return one valid request of each API and version."""
    for key, version in OFFERED:
        values = message(random, request_class(key, version))
        if key == PRODUCE:
            values |= {"acks": random.choice([-1, 0, 1])}
        yield key, version, request_bytes(key, version, values)


@pytest.mark.seeds(2, long_count=50)
def test_a_request_cut_at_any_byte_is_refused(seed: int) -> None:
    for key, version, data in samples(Random(seed)):
        for size in range(len(data)):
            with pytest.raises(MalformedRequest):
                read(key, version, data[:size])


@pytest.mark.seeds(2, long_count=50)
def test_bytes_behind_the_end_of_a_request_are_ignored_as_kafka_does(seed: int) -> None:
    for key, version, data in samples(Random(seed)):
        read(key, version, data + b"\0")


@pytest.mark.seeds(10, long_count=1_000)
def test_flipped_bits_are_read_or_refused(seed: int) -> None:
    random = Random(seed)
    for key, version, data in samples(random):
        for _ in range(20 if data else 0):
            damaged = bytearray(data)
            for _ in range(random.choice([1, 1, 3])):
                damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
            survives(key, version, bytes(damaged))


@pytest.mark.seeds(10, long_count=1_000)
def test_random_bytes_are_read_or_refused(seed: int) -> None:
    random = Random(seed)
    for key, version in OFFERED:
        for _ in range(10):
            survives(key, version, random.randbytes(random.choice([0, 1, 5, 30, 200])))


@pytest.mark.seeds(4, long_count=200)
def test_counts_that_cannot_be_are_refused_before_anything_is_made_of_them(seed: int) -> None:
    """Announce two thousand million of everything, at places all over every request."""
    random = Random(seed)
    requests = list(samples(random))
    tracemalloc.start()
    try:
        for key, version, data in requests:
            for position in random.sample(range(len(data)), min(len(data), 12)):
                for count in HUGE_COUNTS:
                    tracemalloc.reset_peak()
                    before, _ = tracemalloc.get_traced_memory()
                    survives(key, version, data[:position] + count + data[position + len(count) :])
                    _, peak = tracemalloc.get_traced_memory()
                    assert peak - before < PRICE_BYTES_MAX, f"api {key} version {version} byte {position}"
    finally:
        tracemalloc.stop()


@pytest.mark.seeds(10, long_count=500)
def test_a_header_is_read_or_refused(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        data = random.randbytes(random.randrange(30))
        try:
            skip_tags(Cursor(data))
        except (MalformedRequest, IndexError):
            continue


def _with_null(key: int, version: int) -> bytes:
    """Return a request whose first string is null though it cannot be; nothing if there is no such string."""
    entity = request_class(key, version)
    is_flexible = entity.__flexible__
    first = next(iter(members(entity)), None)
    if first is None or first.is_nullable:
        return b""
    if first.kind == "string" and not first.is_array:
        whole = request_bytes(key, version, {first.name: ""})
        return (b"\0" + whole[1:]) if is_flexible else (b"\xff\xff" + whole[2:])
    inner = members(first.entity)[0] if first.is_array and first.entity else None
    if inner is not None and inner.kind == "string" and not inner.is_nullable:
        whole = request_bytes(key, version, {first.name: [{inner.name: ""}]})
        return (whole[:1] + b"\0" + whole[2:]) if is_flexible else (whole[:4] + b"\xff\xff" + whole[6:])
    return b""


WITH_NULL = [(key, version) for key, version in OFFERED if key != PRODUCE and _with_null(key, version)]


@pytest.mark.parametrize(("key", "version"), WITH_NULL)
def test_null_is_refused_where_it_has_no_meaning(key: int, version: int) -> None:
    """Handlers rely on what the definition says: a name that cannot be null is there."""
    with pytest.raises(MalformedRequest):
        decode_request(key, version, Cursor(_with_null(key, version)))


def test_elements_are_counted_over_the_whole_request() -> None:
    names = [{"name": f"t{number}"} for number in range(1001)]
    data = request_bytes(3, 12, {"topics": names})
    assert len(decode_request(3, 12, Cursor(data, elements_max=1001)).topics) == 1001
    with pytest.raises(MalformedRequest):
        decode_request(3, 12, Cursor(data, elements_max=1000))

    partitions = [{"partition_index": number} for number in range(60)]
    data = request_bytes(2, 10, {"topics": [{"name": "a", "partitions": partitions}] * 2})
    with pytest.raises(MalformedRequest):
        decode_request(2, 10, Cursor(data, elements_max=100))


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    data = request_bytes(3, 12, {"topics": [{"name": "abc"}]}).replace(b"abc", b"\xff\xfe\xfd")
    with pytest.raises(MalformedRequest):
        decode_request(3, 12, Cursor(data))


def test_produce_needs_acks_that_exist() -> None:
    records = {"index": 0, "records": b""}
    topics = [{"name": "t", "partition_data": [records]}]
    for acks in (-2, 2, 7):
        request = read(PRODUCE, 9, request_bytes(PRODUCE, 9, {"acks": acks, "topic_data": topics}))
        (section,) = request.sections
        assert isinstance(section.partition, InvalidAcks)
