"""The order of tests and what goes to which worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.scheduling import is_quick, longest_first, require_session_is_shared, scope_of, stored_durations, workers

DURATIONS = {
    "tests/protocols/http/test_a.py": 5.0,
    "tests/unit/test_slow.py": 60.0,
    "tests/simulation/test_faults.py": 50.0,
}


@dataclass(frozen=True)
class Test:
    """As much of a test as is asked for."""

    __test__ = False

    nodeid: str
    marker: str = ""
    fixturenames: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> object | None:
        return name if name == self.marker else None


def made(*nodeids: str) -> list[Any]:
    return [Test(nodeid) for nodeid in nodeids]


def test_longest_files_come_first_and_stay_whole() -> None:
    given = made(
        "tests/x.py::a",
        "tests/protocols/http/test_a.py::a",
        "tests/unit/test_slow.py::b",
        "tests/protocols/http/test_a.py::b",
    )
    ordered = [test.nodeid for test in longest_first(given, DURATIONS)]
    assert ordered == [
        "tests/unit/test_slow.py::b",
        "tests/protocols/http/test_a.py::a",
        "tests/protocols/http/test_a.py::b",
        "tests/x.py::a",
    ]


def test_files_that_share_the_spark_session_are_one_scope() -> None:
    assert scope_of("tests/spark/test_sink.py::a") == scope_of("tests/spark/test_read.py::b")
    assert scope_of("tests/spark/test_cluster.py::a") == "tests/spark/test_cluster.py"
    with pytest.raises(pytest.UsageError, match="uses the session"):
        require_session_is_shared([Test("tests/spark/test_cluster.py::a", fixturenames=("spark",))])  # type: ignore[list-item]


def test_quick_run_has_short_files_and_simulations_with_seeds() -> None:
    def is_in(nodeid: str, marker: str = "") -> bool:
        return is_quick(Test(nodeid, marker), DURATIONS)  # type: ignore[arg-type]

    assert is_in("tests/unit/test_new.py::a")
    assert not is_in("tests/unit/test_slow.py::a")
    assert not is_in("tests/protocols/http/test_new.py::a")
    assert is_in("tests/simulation/test_faults.py::a", "seeds")
    assert not is_in("tests/simulation/test_faults.py::a")


def test_stored_durations_are_of_files_that_exist() -> None:
    root = Path(__file__).parents[2]
    assert [file for file in stored_durations() if not (root / file).exists()] == []


def test_number_of_workers_can_be_chosen() -> None:
    assert workers({"PYTEST_XDIST_AUTO_NUM_WORKERS": "7"}) == 7
    assert workers({}) >= 2
