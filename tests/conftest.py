"""How the suites are sized: seeds per simulation, and which tests run only on request.

A simulation test takes an argument `seed` and says how many it wants:

    @pytest.mark.seeds(20, long_count=2_000)
    def test_nothing_acknowledged_is_lost(seed: int) -> None: ...

It runs with seeds 0 to 19, with `--long` up to 1,999. Each seed is a test of its own, so a failure names its seed,
also when it took the whole worker down. `--seed 17` runs every such test with that seed and no other.

Tests that need a program which PyPI does not have (kcat, kafkajs) are skipped without it, and one line at the end of
the run says how many were skipped and how to get the programs; in CI they fail.

Property tests try the same examples in every run, so that whether a change passes is no matter of luck; with `--long`
they try others each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import settings

from goqueue.testing import Broker
from tests.scheduling import (
    QUICK_SEEDS_MAX,
    DurationsOfFiles,
    is_quick,
    longest_first,
    require_session_is_shared,
    scheduler,
    stored_durations,
    workers,
)

_SEEDS_DESCRIPTION = "seeds(count, long_count): run the test with `count` values of `seed`, or `long_count` with --long"

_INSTALLER = ".ci/install-clients"


@pytest.fixture(scope="module")
def goqueue_session_broker() -> Iterator[Broker]:
    """One broker for each file instead of one for the run: tests of other files patch the classes that it runs."""
    with Broker() as broker:
        yield broker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run tests marked long, and seeded tests with more seeds")
    parser.addoption("--quick", action="store_true", help="run what answers in a minute and a half, with few seeds")
    parser.addoption("--store-durations", action="store_true", help="write what each file took to tests/durations.json")
    parser.addoption("--seed", type=int, action="append", help="run seeded tests with this seed only; may be repeated")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _SEEDS_DESCRIPTION)
    if config.getoption("--store-durations"):
        config.pluginmanager.register(DurationsOfFiles())
    # Without hypothesis' deadline of 200 ms for an example: how long one takes says how busy the machine is.
    settings.register_profile("same every time", derandomize=True, deadline=None)
    settings.register_profile("others each time", deadline=None)
    settings.load_profile("others each time" if config.getoption("--long") else "same every time")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is not None:
        seeds = _wanted_seeds(metafunc.config, *marker.args, **marker.kwargs)
        metafunc.parametrize("seed", seeds, ids=[f"seed={seed}" for seed in seeds])


def _wanted_seeds(config: pytest.Config, count: int, long_count: int) -> Sequence[int]:
    chosen: list[int] | None = config.getoption("--seed")
    if chosen or config.getoption("--long"):
        return chosen or range(long_count)
    return range(min(count, QUICK_SEEDS_MAX) if config.getoption("--quick") else count)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for, and put the rest into the order in which workers take it.

    Long tests are left out, not skipped: a skip would read as a fault.
    """
    require_session_is_shared(items)
    durations = stored_durations()
    is_wanted = {
        item: (config.getoption("--long") or not item.get_closest_marker("long"))
        and (not config.getoption("--quick") or is_quick(item, durations))
        for item in items
    }
    if left_out := [item for item in items if not is_wanted[item]]:
        config.hook.pytest_deselected(items=left_out)
    items[:] = longest_first((item for item in items if is_wanted[item]), durations)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say what `-n auto` means."""
    return workers(os.environ)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files, as `--dist loadfile` does, and what shares a Spark session together."""
    return scheduler(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped for a client that is not installed, and how to install it."""
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    missing = [reason for reason in reasons if _INSTALLER in reason]
    if missing:
        clients = sorted({reason.removeprefix("Skipped: ").split()[0] for reason in missing})
        terminalreporter.write_line(
            f"{len(missing)} tests were skipped, because {' and '.join(clients)} cannot be had from PyPI: run "
            f"{_INSTALLER} once, and they run as well.",
            yellow=True,
        )
