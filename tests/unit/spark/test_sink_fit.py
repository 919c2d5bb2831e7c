"""What is left out of messages that are too large, and in which order."""

from __future__ import annotations

from hashlib import sha512

import pyarrow as pa

from goqueue.spark.records.encode import bytes_alone, encode
from goqueue.spark.sink.staging import fitted
from goqueue.spark.source.columns import SCHEMA

NOW = 1_700_000_000_000
NOISE = b"".join(sha512(bytes([number])).digest() for number in range(20))
Headers = list[tuple[str, bytes | None]]

OWN: Headers = [("trace", b"x"), ("trace", None)]
ADDED: Headers = [
    ("goqueue-dlq-reason", b"bad_value"),
    ("goqueue-dlq-error", b"".join(sha512(bytes([0, number])).digest() for number in range(5))),
    ("goqueue-dlq-topic", b"orders"),
    ("goqueue-dlq-offset", b"7"),
]


def rows_of(*messages: tuple[bytes | None, bytes | None, Headers]) -> pa.RecordBatch:
    kind = SCHEMA.field("headers").type
    headers = [[{"key": key, "value": value} for key, value in pairs] or None for _, _, pairs in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([key for key, _, _ in messages], pa.binary()),
            pa.array([value for _, value, _ in messages], pa.binary()),
            pa.array(headers, kind),
        ],
        names=["key", "value", "headers"],
    )


def size_of(value: bytes | None, headers: Headers, key: bytes | None = b"k") -> int:
    return int(bytes_alone(rows_of((key, value, headers)), NOW)[0])


def cut(
    bytes_max: int, value: bytes = NOISE, key: bytes = b"k"
) -> tuple[bytes | None, bytes | None, dict[str, bytes | None]]:
    """Return what becomes of a message between two others, which stay as they are."""
    small = (b"a", b"b", OWN)
    whole = fitted(rows_of(small, (key, value, OWN + ADDED), small), now_ms=NOW, bytes_max=bytes_max)
    before, row, after = whole.to_pylist()
    assert before == after == rows_of(small).to_pylist()[0]
    assert all(len(batch) <= bytes_max for batch in encode(whole, now_ms=NOW, record_bytes_max=bytes_max))
    return row["key"], row["value"], {each["key"]: each["value"] for each in row["headers"] or []}


def test_what_fits_is_left_alone_also_if_it_has_to_be_compressed() -> None:
    rows = rows_of((b"k", bytes(5_000), OWN + ADDED))
    assert fitted(rows, now_ms=NOW, bytes_max=10_000) is rows
    assert fitted(rows, now_ms=NOW, bytes_max=1_000).to_pylist() == rows.to_pylist()
    assert fitted(rows.slice(1), now_ms=NOW, bytes_max=1_000).num_rows == 0


def test_added_headers_go_first_and_the_largest_of_them_before_the_others() -> None:
    whole = size_of(NOISE, OWN + ADDED)
    key, value, headers = cut(whole - 1)
    assert (key, value) == (b"k", NOISE)
    assert headers["goqueue-dlq-cut"] == b"goqueue-dlq-error"
    assert {"trace", "goqueue-dlq-reason", "goqueue-dlq-topic", "goqueue-dlq-offset"} < headers.keys()

    # Not even a header that says so has room: the message is as it was in its topic.
    assert cut(size_of(NOISE, OWN)) == (b"k", NOISE, {"trace": None})


def test_the_value_goes_next_and_what_was_added_tells_where_it_is() -> None:
    key, value, headers = cut(size_of(NOISE, OWN) - 1)
    assert (key, value) == (b"k", None)
    assert headers["goqueue-dlq-cut"] == b"the value, 1,280 bytes"
    assert {name for name, _ in OWN + ADDED} < headers.keys()

    key, value, headers = cut(600, key=NOISE)
    assert (key, value) == (None, None)
    assert headers["goqueue-dlq-cut"] == b"the key, the headers, the value, 1,280 bytes"
    assert headers["goqueue-dlq-offset"] == b"7"
    assert "trace" not in headers


def test_a_row_without_headers_can_be_cut_as_well() -> None:
    rows = rows_of((None, NOISE, [])).select(["key", "value"])
    (row,) = fitted(rows, now_ms=NOW, bytes_max=1_000).to_pylist()
    assert row == {
        "key": None,
        "value": None,
        "headers": [{"key": "goqueue-dlq-cut", "value": b"the value, 1,280 bytes"}],
    }
