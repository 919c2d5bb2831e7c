"""Which tests run where, and in which order: whole files, the longest first.

Tests of one file share brokers and other fixtures, so a file goes to one worker as a whole. All files that use the
shared Spark session go to the same worker, since a session takes ten seconds to start and half a gigabyte. Starting
with what takes longest leaves no long file for the end, when only one worker would have something to do.

`durations.json` has the seconds of each file that takes long. `pytest --store-durations` measures them again; do so on
a calm machine after adding slow tests.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

DURATIONS: Final = Path(__file__).with_name("durations.json")
_STORED_SECONDS_MIN: Final = 1.0

# Directories of `--quick`, and how long a file may take to be among them. Simulations with seeds always are, with few.
_SIMULATION: Final = "tests/simulation/"
_QUICK: Final = ("tests/unit/", "tests/property/", _SIMULATION, "tests/protocols/kafka/")
_QUICK_SECONDS_MAX: Final = 2.0
QUICK_SEEDS_MAX: Final = 2

_SPARK: Final = "tests/spark/"
# These do without the session: they start Sparks of their own, or none, and can run beside it.
_WITHOUT_SESSION: Final = (
    "tests/spark/test_cluster.py",
    "tests/spark/test_demo.py",
    "tests/spark/test_doctor.py",
    "tests/spark/test_pipeline_run_command.py",
    "tests/spark/test_read_slices.py",
    "tests/spark/test_session_interrupted.py",
    "tests/spark/test_sink_staging.py",
)


def file_of(nodeid: str) -> str:
    """Return the file of a test."""
    return nodeid.partition("::")[0]


def scope_of(nodeid: str) -> str:
    """Return what a test has to be together with: its file, or all files that share the Spark session."""
    file = file_of(nodeid)
    return _SPARK if file.startswith(_SPARK) and file not in _WITHOUT_SESSION else file


def stored_durations() -> Mapping[str, float]:
    """Return the seconds of each file that takes long."""
    durations: dict[str, float] = json.loads(DURATIONS.read_text("utf-8"))
    return durations


def longest_first(items: Iterable[pytest.Item], durations: Mapping[str, float]) -> list[pytest.Item]:
    """Return the tests in the order of their scopes' durations; those of a scope stay together, as they were."""
    seconds: Counter[str] = Counter()
    for file, taken in durations.items():
        seconds[scope_of(file)] += taken  # type: ignore[assignment]
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scopes.setdefault(scope_of(item.nodeid), []).append(item)
    return [item for scope in sorted(scopes, key=lambda scope: -seconds[scope]) for item in scopes[scope]]


def is_quick(item: pytest.Item, durations: Mapping[str, float]) -> bool:
    """Tell whether a test belongs to the run that answers in a minute and a half."""
    file = file_of(item.nodeid)
    has_few_seeds = file.startswith(_SIMULATION) and item.get_closest_marker("seeds") is not None
    return file.startswith(_QUICK) and (has_few_seeds or durations.get(file, 0) <= _QUICK_SECONDS_MAX)


def require_session_is_shared(items: Iterable[pytest.Item]) -> None:
    """Refuse a test that starts the shared session in a worker of its own."""
    for item in items:
        if file_of(item.nodeid) in _WITHOUT_SESSION and "spark" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid} uses the session: take its file out of _WITHOUT_SESSION")


def workers(environ: Mapping[str, str]) -> int:
    """Return how many workers to run: one more than cores, since many tests wait for processes and sockets."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") or cores + 1)


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out scopes in the order in which the tests come."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class ByScope(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    config.option.loadscopereorder = False
    return ByScope(config, log)


class DurationsOfFiles:
    """A plugin that adds up what the tests of each file take, and stores it at the end of the run."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            long = {file: round(taken) for file, taken in sorted(self._seconds.items()) if taken >= _STORED_SECONDS_MIN}
            DURATIONS.write_text(json.dumps(long, indent=1) + "\n", "utf-8")
