"""Figures are arithmetic on what was measured, and None where nothing was."""

from __future__ import annotations

import json

import pytest

from goqueue_bench.cpu import Usage
from goqueue_bench.figures import figures, percentile


def usage(seconds: float, server: float | None) -> Usage:
    made = Usage()
    made.seconds, made.server_cpu_seconds = seconds, server
    return made


@pytest.mark.parametrize(
    ("count", "fraction", "expected"),
    [
        (1, 0.5, 1),
        (1, 0.999, 1),
        (100, 0.5, 50),
        (100, 0.99, 99),
        (100, 0.999, 100),
        (1000, 0.999, 999),
        (100, 0.07, 7),
    ],
)
def test_a_percentile_is_the_value_that_so_many_do_not_exceed(count: int, fraction: float, expected: float) -> None:
    values = [float(number) for number in range(count, 0, -1)]
    assert percentile(values, fraction) == expected
    assert sum(value <= expected for value in values) >= fraction * count - 1e-9


def test_no_values_have_no_percentile() -> None:
    assert percentile([], 0.5) is None


def test_rates_and_cost_are_per_message() -> None:
    made = figures(2_000_000, 100, usage(4.0, 0.5), [1.0, 2.0, 3.0])
    assert made.msgs_per_s == 500_000
    assert made.mb_per_s == 50
    assert made.broker_cpu_us_per_msg == 0.25
    assert (made.p50_ms, made.p99_ms, made.p999_ms) == (2.0, 3.0, 3.0)


def test_figures_that_do_not_exist_are_null_in_json() -> None:
    document = json.loads(json.dumps(figures(10, 100, usage(1.0, None)).as_dict()))
    assert document == {
        "messages": 10,
        "seconds": 1.0,
        "msgs_per_s": 10.0,
        "mb_per_s": 0.001,
        "broker_cpu_us_per_msg": None,
        "p50_ms": None,
        "p99_ms": None,
        "p999_ms": None,
    }


def test_figures_keep_four_digits_and_counts_all_of_them() -> None:
    made = figures(1_234_567, 100, usage(3.14159265, 0.1)).as_dict()
    assert made["messages"] == 1_234_567
    assert made["seconds"] == 3.142
    assert made["msgs_per_s"] == 392975
