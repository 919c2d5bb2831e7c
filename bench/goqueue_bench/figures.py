"""The figures of a workload against a broker, the same for each: how many, how fast, what it cost, how long it took.

A figure that a workload does not have is None: a stream of messages has no latency of its own, and a broker whose
process is not known has no CPU time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from goqueue_bench.cpu import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one workload; an MB is a million bytes of payload."""

    messages: int
    seconds: float
    msgs_per_s: float
    mb_per_s: float
    broker_cpu_us_per_msg: float | None
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        """Return the figures by name, rounded to four digits: more would pretend."""
        return {name: None if value is None else rounded(value) for name, value in asdict(self).items()}


def figures(messages: int, size_bytes: int, usage: Usage, latencies_ms: Sequence[float] = ()) -> Figures:
    """Make the figures of a measured block in which so many messages of one size went through."""
    cpu = usage.server_cpu_seconds
    p50, p99, p999 = (percentile(latencies_ms, fraction) for fraction in (0.5, 0.99, 0.999))
    return Figures(
        messages=messages,
        seconds=usage.seconds,
        msgs_per_s=messages / usage.seconds,
        mb_per_s=messages * size_bytes / usage.seconds / 1e6,
        broker_cpu_us_per_msg=None if cpu is None else cpu / messages * 1e6,
        p50_ms=p50,
        p99_ms=p99,
        p999_ms=p999,
    )


def percentile(values: Sequence[float], fraction: float) -> float | None:
    """Return the smallest value that at least this fraction of all values does not exceed; None of no values.

    It is always one of the values: between two measurements nothing was measured.
    """
    if not values:
        return None
    # Less a little, since 0.07 * 100 is more than 7 to a computer.
    rank = math.ceil(fraction * len(values) - 1e-9)
    return sorted(values)[max(0, rank - 1)]


def rounded(value: float) -> float:
    """Return a value with as many digits as are worth telling."""
    if isinstance(value, int):
        return value
    return round(value) if abs(value) >= 1000 else float(f"{value:.4g}")
