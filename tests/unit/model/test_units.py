"""Durations and byte sizes read as people write them, and what is written reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import Invalid
from goqueue.model.units import AMOUNT_MAX, bytes_text, duration_text, parse_bytes, parse_duration_ms, quoted

amounts = st.one_of(
    st.integers(0, AMOUNT_MAX),
    st.integers(0, 100_000),
    # Round ones: what people write.
    st.builds(lambda number, unit: number * unit, st.integers(0, 999), st.sampled_from([1000, 1024, 60_000, 2**20])),
)


@given(amounts)
def test_every_duration_reads_back(duration_ms: int) -> None:
    assert parse_duration_ms(duration_text(duration_ms)) == duration_ms


@given(amounts)
def test_every_size_reads_back(size: int) -> None:
    assert parse_bytes(bytes_text(size)) == size


@given(amounts)
def test_plain_number_is_taken_as_it_is(amount: int) -> None:
    for parse in (parse_duration_ms, parse_bytes):
        assert parse(amount) == parse(str(amount)) == amount


@pytest.mark.parametrize(
    ("written", "duration_ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        ("0s", 0),
        (" 5 m ", 300_000),
    ],
)
def test_duration_may_have_a_unit(written: str, duration_ms: int) -> None:
    assert parse_duration_ms(written) == duration_ms


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("64KiB", 65_536),
        ("1MiB", 1_048_576),
        ("2gib", 2**31),
        ("1TiB", 2**40),
        ("10MB", 10_000_000),
        ("10 kB", 10_000),
        ("1GB", 10**9),
        ("1TB", 10**12),
        ("7B", 7),
    ],
)
def test_size_may_have_a_unit(written: str, size: int) -> None:
    assert parse_bytes(written) == size


def test_largest_unit_without_a_fraction_is_shown() -> None:
    durations = (0, 1, 1500, 90_000, 3_600_000, 86_400_000 * 7)
    assert [duration_text(duration) for duration in durations] == ["0ms", "1ms", "1500ms", "90s", "1h", "7d"]
    sizes = (0, 1000, 1024, 1536, 100 * 2**20, 2**41)
    assert [bytes_text(size) for size in sizes] == ["0", "1000", "1KiB", "1536", "100MiB", "2TiB"]


@pytest.mark.parametrize("written", ["", "s", "-1", "-5s", "1.5s", "1h30m", "1e3", "0x10", "1_000", "٣s", True, -1])
def test_what_is_no_amount_is_refused_with_what_to_write(written: str | int) -> None:
    for parse, hint in ((parse_duration_ms, "30s"), (parse_bytes, "64KiB")):
        with pytest.raises(Invalid) as caught:
            parse(written)
        assert repr(written) in caught.value.message
        assert hint in caught.value.hint


@pytest.mark.parametrize("written", ["5M", "1w", "1us", "5MS", "10MB"])
def test_unknown_unit_of_a_duration_is_named(written: str) -> None:
    with pytest.raises(Invalid, match=f"unknown unit '{written.lstrip('0123456789')}'"):
        parse_duration_ms(written)


@pytest.mark.parametrize("written", ["5M", "1PiB", "10Mbit", "30s"])
def test_unknown_unit_of_a_size_is_named(written: str) -> None:
    with pytest.raises(Invalid, match=f"unknown unit '{written.lstrip('0123456789')}'"):
        parse_bytes(written)


def test_amount_that_no_field_can_hold_is_refused() -> None:
    too_large: list[str | int] = [AMOUNT_MAX + 1, str(AMOUNT_MAX + 1), 10**5000]
    for written in [*too_large, "9223372036854775807s"]:
        with pytest.raises(Invalid, match="too large"):
            parse_duration_ms(written)
    for written in [*too_large, "8388608TiB"]:
        with pytest.raises(Invalid, match="too large"):
            parse_bytes(written)


def test_quoted_text_is_short_and_on_one_line() -> None:
    assert quoted("a\nb") == r"'a\nb'"
    assert quoted(5) == "5"
    assert len(quoted("x" * 1000)) <= 60
    assert quoted(-(10**5000)) == "a huge number"
