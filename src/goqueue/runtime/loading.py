"""Opens many logs at once, each in a thread: a log that cannot be opened does not keep the others from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import PurePath
from typing import NamedTuple

from goqueue.errors import GoQueueError
from goqueue.log.file_cache import FileCache
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import Disk
from goqueue.seams.sink import Sink


class Loaded(NamedTuple):
    """The logs that could be opened, and for the others the reason why not."""

    logs: dict[PurePath, Log]
    faults: dict[PurePath, GoQueueError | OSError]


async def open_logs(
    disk: Disk,
    wanted: Iterable[tuple[PurePath, LogSettings]],
    sink: Sink,
    file_cache: FileCache,
    threads: Executor | None = None,
) -> Loaded:
    """Open the logs in some directories, as many at a time as there are threads."""
    loop = asyncio.get_running_loop()
    loaded = Loaded({}, {})

    def open_one(directory: PurePath, settings: LogSettings) -> Log | GoQueueError | OSError:
        try:
            return Log(disk, directory, settings, sink, file_cache)
        except (GoQueueError, OSError) as error:
            return error

    jobs = {directory: loop.run_in_executor(threads, open_one, directory, settings) for directory, settings in wanted}
    for directory, job in jobs.items():
        outcome = await job
        if isinstance(outcome, Log):
            loaded.logs[directory] = outcome
        else:
            loaded.faults[directory] = outcome
    return loaded
