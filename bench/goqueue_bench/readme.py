"""Puts the stored results of the benchmarks into README.md and docs/benchmarks.md, between markers: `make readme`.

Owns how a result reads in a table. Measures nothing and rounds only for display, so that every figure comes from a
stored result; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "bench" / "results"

LOG = "log"
# In the order in which they are shown.
BROKER = (
    "publish",
    "publish-interval",
    "replay",
    "replay-raw",
    "latency",
    "latency-interval",
    "requests",
    "requests-interval",
)
COORDINATION = ("groups", "transactions")
QUEUE = "queue"
SPARK = "spark"

# One object of the stored JSON: goes straight from there into a line of text.
Facts = Mapping[str, Any]
# The stored documents, by the names of their files.
Stored = Mapping[str, Facts]

_DESCRIPTION = ("what", "value", "unit", "goal", "is_met")
# Settings of a measurement, not results.
_SETTINGS = (
    "rounds",
    "batches",
    "waiters",
    "requests",
    "connections",
    "groups",
    "offsets",
    "messages",
    "seconds",
    "rows",
)
# Stored with the results, and not shown.
_LEFT_OUT = ("mb_per_s", "p999_ms")
_NAMES = {
    "bytes_checked": ("checked", "bytes"),
    "msgs_per_s": ("messages", "/s"),
    "broker_cpu_us_per_msg": ("broker CPU per message", "us"),
    "broker_cpu_ms": ("broker CPU", "ms"),
    "cpu_seconds": ("CPU", "s"),
    "empty_cpu_seconds": ("empty CPU", "s"),
}
_SUFFIXES = {
    "bytes_per_second": "bytes/s",
    "_per_second": "/s",
    "_bytes": "bytes",
    "_seconds": "s",
    "_ms": "ms",
}
_VERDICTS = {True: "met", False: "missed", None: ""}
_WORKLOADS = {
    "publish": "publishing in bulk, confluent-kafka",
    "replay_confluent": "replay, confluent-kafka",
    "replay_raw": "replay, bare socket",
    "latency_raw": "one publish at a time, bare socket",
    "latency_confluent": "one publish at a time, confluent-kafka",
    "end_to_end": "at a steady pace to a consumer that waits",
    "requests": "one message per request, many in flight",
}
_FIGURES = {"msgs_per_s": "", "broker_cpu_us_per_msg": "us", "p50_ms": "ms", "p99_ms": "ms"}
_BROKER_HEAD = """
| measured | reply | messages/s | broker CPU per message | p50 | p99 |
|---|---|---:|---:|---:|---:|"""
_GOALS_HEAD = """
| measured | result | goal | | from |
|---|---:|---|---|---|"""


class Headline(NamedTuple):
    """A row of the short table: one result, and its figures with their labels and units."""

    words: str
    document: str
    result: str
    figures: Mapping[str, tuple[str, str]]


class Block(NamedTuple):
    """A place for figures: its file, the lines around it, and what stands between them."""

    file: Path
    begin: str
    end: str
    render: Callable[[Stored], str]


def stored() -> Stored:
    """Return the stored results."""
    paths = {name: RESULTS / f"{name}.json" for name in (LOG, *BROKER, *COORDINATION, QUEUE, SPARK)}
    return {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.exists()}


def renew(file: Path, text: str, results: Stored) -> str:
    """Return the text of a file with the figures of some results in the place of the old ones."""
    for block in BLOCKS:
        if block.file != file:
            continue
        if text.count(block.begin) != 1 or text.count(block.end) != 1:
            raise ValueError(f"{file.name} needs one line {block.begin!r} and one line {block.end!r}")
        before, _, rest = text.partition(block.begin)
        _, _, after = rest.partition(block.end)
        text = f"{before}{block.begin}\n{block.render(results)}{block.end}{after}"
    return text


def render_headlines(results: Stored) -> str:
    """Return the few figures that README.md shows, as a Markdown table."""
    rows = []
    for words, document, result, units in _HEADLINES:
        if document in results:
            figures = results[document]["results"][result]
            shown = (f"{label} {_quantity(figures[name], unit)}".strip() for name, (label, unit) in units.items())
            rows.append(_line((words, ", ".join(shown))))
    return _table("", rows, "| measured | result |\n|---|---|").removeprefix("\n")


def render_log(results: Stored) -> str:
    """Return the results of the log as a Markdown table under a sentence that names the machine."""
    document = results[LOG]
    return _table(f"On {_machine(document['machine'])}:", map(_row, document["results"].values()), _GOALS_HEAD)


def render_broker(results: Stored) -> str:
    """Return the results of a broker as one such table, or one for each machine and size of messages.

    Groups, transactions, queues and Spark have goals, and follow in tables of their own.
    """
    tables: dict[tuple[str, str], list[str]] = {}
    for document in (results[name] for name in BROKER if name in results):
        size = document["settings"]["size_bytes"]
        about = f"Messages of {size:,} bytes on {_machine(document['machine'])}:"
        tables.setdefault((about, _BROKER_HEAD), []).extend(_broker_rows(document))
    for document in (results[name] for name in COORDINATION if name in results):
        about = f"Groups and transactions on {_machine(document['machine'])}:"
        tables.setdefault((about, _GOALS_HEAD), []).extend(map(_row, document["results"].values()))
    if QUEUE in results:
        document = results[QUEUE]
        tables[_about_queue(document), _GOALS_HEAD] = [_row(facts) for facts in document["results"].values()]
    if SPARK in results:
        document = results[SPARK]
        tables[_about_spark(document), _GOALS_HEAD] = [_row(facts) for facts in document["results"].values()]
    return "\n".join(_table(about, rows, head) for (about, head), rows in tables.items())


def _table(about: str, rows: Iterable[str], head: str) -> str:
    return "\n".join([about, head, *rows, ""])


def _machine(machine: Facts) -> str:
    memory_gib = machine["memory_bytes"] / 2**30
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {memory_gib:.0f} GiB of memory, {machine['file_system']}, "
        f"{machine['kernel']}, {machine['python']}{_python_build(machine)}, GoQueue {machine['goqueue']}"
    )


def _python_build(machine: Facts) -> str:
    """Say whether Python was an optimised build; older results do not tell."""
    if "python_is_optimised" not in machine:
        return ""
    return f" ({'optimised' if machine['python_is_optimised'] else 'not optimised'}, {machine['python_compiler']})"


def _about_queue(document: Facts) -> str:
    settings = document["settings"]
    return (
        f"Queues by HTTP, messages of {settings['size_bytes']:,} bytes in {settings['partitions']:,} partitions, acks "
        f"on the disk before they are answered, on {_machine(document['machine'])}:"
    )


def _about_spark(document: Facts) -> str:
    settings = document["settings"]
    codec = "" if settings["codec"] == "none" else f", {settings['codec']}"
    return (
        f"Spark {settings['spark']} with master {settings['master']}, {settings['rows']:,} rows of "
        f"{settings['size_bytes']:,} bytes{codec}, on {_machine(document['machine'])}:"
    )


def _row(facts: Facts) -> str:
    unit = facts["unit"]
    goal = f"{facts['goal']} {unit}" if facts["goal"] else ""
    cells = (facts["what"], _quantity(facts["value"], unit), goal, _VERDICTS[facts["is_met"]], _details(facts))
    return _line(cells)


def _broker_rows(document: Facts) -> Iterator[str]:
    reply = _reply(document["settings"])
    for name, figures in document["results"].items():
        known = ("" if figures[key] is None else _quantity(figures[key], unit) for key, unit in _FIGURES.items())
        yield _line((_WORKLOADS.get(name, name.replace("_", " ")), reply, *known))


def _reply(settings: Facts) -> str:
    """Say what the reply to a publish waits for; readers wait for no disk."""
    if "acks" not in settings:
        return ""
    waits = settings["flush"] == "group" and settings["acks"] == "all"
    return f"acks={settings['acks']}, fsync {'first' if waits else 'soon'}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _details(facts: Facts) -> str:
    parts = []
    for name, value in facts.items():
        if name not in (*_DESCRIPTION, *_SETTINGS, *_LEFT_OUT):
            words, unit = _unit_of(name)
            parts.append(f"{words} {_quantity(value, unit)}".strip())
    return ", ".join(parts)


def _unit_of(name: str) -> tuple[str, str]:
    """Split the name of a detail into words and unit; units come last, except where they count something."""
    if name in _NAMES:
        return _NAMES[name]
    for suffix, unit in _SUFFIXES.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " ").strip(), unit
    before, is_cost, of_each = name.rpartition("cpu_us_per_")
    if is_cost:
        return f"{before.replace('_', ' ')}CPU per {of_each}", "us"
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


_RATE = {"msgs_per_s": ("", "messages/s"), "broker_cpu_us_per_msg": ("broker CPU per message", "us")}
_LATENCY = {"p50_ms": ("p50", "ms"), "p99_ms": ("p99", "ms")}
_HEADLINES = (
    Headline("publish in bulk with confluent-kafka, acks=all, fsync before the reply", "publish", "publish", _RATE),
    Headline("replay with confluent-kafka", "replay", "replay_confluent", _RATE),
    Headline("publish one message at a time, fsync before the reply", "latency", "latency_confluent", _LATENCY),
    Headline(
        "receive and acknowledge queue messages by HTTP, 500 at a time",
        "queue",
        "queue_batches",
        {"value": ("", "messages/s")},
    ),
    Headline(
        "transactions of 100 messages, 16 producers",
        "transactions",
        "transactions",
        {"value": ("", "transactions/s"), **_LATENCY},
    ),
    Headline("batch read with Spark, two cores", "spark", "read", {"value": ("", "rows/s")}),
)
BLOCKS = (
    Block(
        README,
        "<!-- headlines: written by `make readme` from bench/results -->",
        "<!-- end of the headlines -->",
        render_headlines,
    ),
    Block(
        BENCHMARKS,
        "<!-- figures of the broker: written by `make readme` from bench/results -->",
        "<!-- end of the broker's figures -->",
        render_broker,
    ),
    Block(
        BENCHMARKS,
        "<!-- figures of the log: written by `make readme` from bench/results/log.json -->",
        "<!-- end of the log's figures -->",
        render_log,
    ),
)

if __name__ == "__main__":
    for path in dict.fromkeys(block.file for block in BLOCKS):
        path.write_text(renew(path, path.read_text("utf-8"), stored()), "utf-8")
