"""CPU time is taken from the kernel's books: a process, its children living and ended, and the rest of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue_bench import cpu

TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid: int, parent: int, *, own: tuple[int, int], ended: tuple[int, int] = (0, 0), name: str = "server") -> str:
    """Return a line as the kernel writes it; the numbers that nobody looks at are all different."""
    before = f"S {parent} 901 902 0 -1 4194560 903 904 905 906"
    return f"{pid} ({name}) {before} {own[0]} {own[1]} {ended[0]} {ended[1]} 20 0 7 0 908 909 910\n"


def books(directory: Path, *lines: str) -> Path:
    for line in lines:
        process = directory / line.split()[0]
        process.mkdir()
        (process / "stat").write_text(line, "utf-8")
    (directory / "self").mkdir()
    return directory


def test_user_and_system_time_of_a_process_are_added(tmp_path: Path) -> None:
    proc = books(tmp_path, stat(7, 1, own=(300, 20), ended=(5000, 5000)))
    assert cpu.process_cpu_seconds(7, proc=proc) == 320 / TICKS


@pytest.mark.parametrize("name", ["redis server", "a) S 1 (b", "(((", "1 2 3"])
def test_the_name_of_a_process_may_look_like_anything(name: str) -> None:
    assert cpu.parse_process(stat(7, 3, own=(300, 20), ended=(4, 5), name=name)) == (3, 320, 9)


def test_a_tree_has_its_descendants_living_and_ended_and_nobody_else(tmp_path: Path) -> None:
    proc = books(
        tmp_path,
        stat(7, 1, own=(100, 0), ended=(0, 7)),
        stat(8, 7, own=(20, 1)),
        stat(9, 8, own=(3, 0), ended=(2, 0)),
        stat(10, 1, own=(9999, 9999)),
    )
    assert cpu.tree_cpu_seconds(7, proc=proc) == (107 + 21 + 5) / TICKS


def test_a_process_that_is_gone_has_no_time(tmp_path: Path) -> None:
    with pytest.raises(ProcessLookupError, match="11"):
        cpu.tree_cpu_seconds(11, proc=books(tmp_path, stat(7, 1, own=(1, 1))))


def test_a_machine_is_not_busy_while_it_idles_or_waits_for_a_disk() -> None:
    assert cpu.parse_busy_ticks("cpu  10 20 30 4000 5000 60 70 80 90 0\ncpu0 1 2 3\n") == 10 + 20 + 30 + 60 + 70 + 80


def test_what_a_child_works_is_the_servers_and_what_we_work_is_the_clients() -> None:
    work = "sum(range(20_000_000)); print(); input()"
    child = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        with cpu.metered(child.pid) as usage:
            child.stdout.readline()
            used = sum(range(5_000_000))
        assert used
        assert usage.server_cpu_seconds is not None
        assert usage.server_cpu_seconds > 2 / TICKS
        assert usage.client_cpu_seconds > 0
        assert usage.seconds > 0
        assert usage.other_cores >= 0
        child.communicate(b"\n")


def test_a_server_whose_process_is_not_known_has_no_time() -> None:
    with cpu.metered(None) as usage:
        pass
    assert usage.server_cpu_seconds is None
