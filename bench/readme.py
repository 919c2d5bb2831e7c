"""Puts the stored results of the benchmarks into README.md, between two markers: `make readme`.

Owns how a result reads in a table. Measures nothing and rounds only for display, so a figure in README.md always has
a stored result behind it; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results" / "log.json"

BEGIN = "<!-- figures: written by `make readme` from bench/results/log.json -->"
END = "<!-- end of figures -->"

# One object of the stored JSON: goes straight from there into a line of text.
Facts = Mapping[str, Any]

_DESCRIPTION = ("what", "value", "unit", "goal", "is_met")
# How a measurement was made, not what came of it.
_SETTINGS = ("rounds", "batches", "waiters")
_VERDICTS = {True: "met", False: "missed", None: ""}


def renew(readme: str, results: str) -> str:
    """Return the README with the figures of some results (the text of a JSON file) in the place of the old ones."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"README.md needs one line {BEGIN!r} and one line {END!r}")
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{render(results)}{END}{after}"


def render(results: str) -> str:
    """Return stored results as a Markdown table under a sentence that names the machine."""
    document = json.loads(results)
    lines = [
        _machine(document["machine"]),
        "",
        "| measured | result | goal | | from |",
        "|---|---:|---|---|---|",
        *(_row(facts) for facts in document["results"].values()),
    ]
    return "\n".join(lines) + "\n"


def _machine(machine: Facts) -> str:
    memory_gib = machine["memory_bytes"] / 2**30
    return (
        f"On {machine['cpu']}, {machine['cores']} cores, {memory_gib:.0f} GiB of memory, {machine['file_system']}, "
        f"{machine['kernel']}, {machine['python']}, GoQueue {machine['goqueue']}:"
    )


def _row(facts: Facts) -> str:
    unit = facts["unit"]
    goal = f"{facts['goal']} {unit}" if facts["goal"] else ""
    cells = (facts["what"], _quantity(facts["value"], unit), goal, _VERDICTS[facts["is_met"]], _details(facts))
    return "| " + " | ".join(cells) + " |"


def _details(facts: Facts) -> str:
    parts = []
    for name, value in facts.items():
        if name not in _DESCRIPTION and name not in _SETTINGS:
            words, unit = _unit_of(name)
            parts.append(f"{words} {_quantity(value, unit)}".strip())
    return ", ".join(parts)


def _unit_of(name: str) -> tuple[str, str]:
    """Split the name of a detail into words and unit; units come last, except where they count something."""
    for suffix, unit in (("bytes_per_second", "bytes/s"), ("_per_second", "/s"), ("_bytes", "bytes")):
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " ").strip(), unit
    if name == "bytes_checked":
        return "checked", "bytes"
    if name.startswith("cpu_us_per_"):
        return f"CPU per {name.removeprefix('cpu_us_per_')}", "us"
    return name.replace("_", " "), ""


def _quantity(value: float, unit: str) -> str:
    if unit == "bytes/s":
        return f"{value / 1e6:,.0f} MB/s"
    if unit == "bytes":
        return f"{value / 1e6:,.0f} MB" if value >= 1e6 else f"{value:,.0f} bytes"
    if unit == "s":
        return f"{_rounded(value * 1000)} ms"
    return f"{_rounded(value)}{unit}" if unit == "/s" else f"{_rounded(value)} {unit}".strip()


def _rounded(value: float) -> str:
    """Keep three digits: more would pretend."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    README.write_text(renew(README.read_text("utf-8"), RESULTS.read_text("utf-8")), "utf-8")
