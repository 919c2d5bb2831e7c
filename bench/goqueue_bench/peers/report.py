"""Report of a comparison: medians over the rounds with their range, and everything needed to judge them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from goqueue_bench.figures import figures
from goqueue_bench.machine import Machine
from goqueue_bench.peers.peer import MESSAGE_BYTES, Peer
from goqueue_bench.peers.rounds import Plan, Sample

# One object of the JSON that is stored.
Facts = dict[str, Any]

_RATES = ("msgs_per_s", "server_cpu_us_per_msg", "client_cpu_us_per_msg", "other_cores")
_LATENCIES = ("p50_ms", "p99_ms", "p999_ms")


def report(
    machine: Machine, plan: Plan, peers: Sequence[Peer], samples: Sequence[Sample], left_out: Mapping[str, str]
) -> Facts:
    """Return the document that is stored."""
    present = [peer for peer in peers if peer.name not in left_out]
    return {
        "machine": machine._asdict(),
        "rounds": plan.rounds,
        "message_bytes": MESSAGE_BYTES,
        "peers": {
            peer.name: {
                "version": peer.version(),
                "settings": {str(group): text for group, text in peer.settings.items()},
            }
            for peer in present
        },
        "left_out": dict(left_out),
        "results": summarise(samples),
    }


def summarise(samples: Sequence[Sample]) -> list[Facts]:
    """Return a row per peer, durability, workload and client, ordered by workload and then by speed."""
    rounds: dict[tuple[str, ...], list[Sample]] = defaultdict(list)
    for sample in samples:
        rounds[sample.workload, sample.durability, sample.peer, sample.client].append(sample)
    rows = [_row(each) for each in rounds.values()]
    return sorted(rows, key=lambda row: (row["workload"], row["durability"], -row["msgs_per_s"]["median"]))


def _row(samples: Sequence[Sample]) -> Facts:
    first = samples[0]
    numbers = [_numbers(sample) for sample in samples]
    names = _RATES + (_LATENCIES if first.measured.latencies_ms else ())
    return {
        "workload": str(first.workload),
        "durability": str(first.durability),
        "peer": first.peer,
        "client": first.client,
        "messages": [sample.measured.messages for sample in samples],
        **{name: _spread([each[name] for each in numbers]) for name in names},
    }


def _numbers(sample: Sample) -> dict[str, float]:
    messages, usage, latencies_ms = sample.measured
    made = figures(messages, MESSAGE_BYTES, usage, latencies_ms)
    return {
        "msgs_per_s": made.msgs_per_s,
        "server_cpu_us_per_msg": made.broker_cpu_us_per_msg or 0.0,
        "client_cpu_us_per_msg": usage.client_cpu_seconds / messages * 1e6,
        "other_cores": usage.other_cores,
        "p50_ms": made.p50_ms or 0.0,
        "p99_ms": made.p99_ms or 0.0,
        "p999_ms": made.p999_ms or 0.0,
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": _rounded(median(values)), "min": _rounded(min(values)), "max": _rounded(max(values))}


def _rounded(value: float) -> float:
    return round(value) if value >= 1000 else float(f"{value:.3g}")


def table(document: Facts) -> str:
    """Return the medians as Markdown."""
    lines = [
        "| workload | durability | peer | client | msgs/s | server us/msg | p50 ms | p99 ms | other cores |",
        "|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in document["results"]:
        figures_of = [row.get(name, {}).get("median") for name in ("msgs_per_s", "server_cpu_us_per_msg")]
        figures_of += [row.get(name, {}).get("median") for name in ("p50_ms", "p99_ms", "other_cores")]
        words = [row[name] for name in ("workload", "durability", "peer", "client")]
        lines.append("| " + " | ".join([*words, *("" if each is None else f"{each:,}" for each in figures_of)]) + " |")
    lines += [f"Left out: {name}: {reason}" for name, reason in document["left_out"].items()]
    return "\n".join(lines) + "\n"
