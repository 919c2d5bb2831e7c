"""Functions of a pipeline that kill: once each, when the marker that is named after them lies beside this file.

What is killed is in the middle of a batch: rows have gone through, and the sink has stored some of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

BATCHES_BEFORE = 30
HERE = str(Path(__file__).parent)


def lose_executor(rows: Any) -> Any:
    """Pass rows on, and kill the Java of the executor in between."""
    return rows.mapInArrow(_passing(HERE, "lose_executor", _kill_executor), rows.schema)


def lose_executor_of_files(rows: Any) -> Any:
    """Pass rows on to files, and kill the Java of the executor in between."""
    return rows.mapInArrow(_passing(HERE, "lose_executor_of_files", _kill_executor), rows.schema)


def lose_python(rows: Any) -> Any:
    """Pass rows on, and kill the Python of the task in between."""
    return rows.mapInArrow(_passing(HERE, "lose_python", _kill_python), rows.schema)


def _passing(directory: str, marker: str, kill: Callable[[], None]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == BATCHES_BEFORE:
                with suppress(FileNotFoundError):
                    (Path(directory) / marker).unlink()
                    kill()
            yield batch

    return run


def _kill_executor() -> None:
    # A worker is started by a daemon, and that one by Java.
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)


def _kill_python() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
