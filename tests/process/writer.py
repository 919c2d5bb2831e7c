"""A process to be killed: appends to a log for ever and prints each offset once it is durable.

    python writer.py DIRECTORY

A line `OFFSET` on standard output means that the record at this offset, with the value `OFFSET`, must survive.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from goqueue.log.batches import check_batches
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.maintenance import LogMaintenance
from goqueue.seams.clock import SystemClock
from goqueue.seams.disk import RealDisk

WRITERS = 8
SETTINGS = LogSettings(segment_bytes=64 * 1024, checkpoint_interval_ms=1, retention_ms=-1)


async def write(log: Log, flusher: Flusher) -> None:
    """Append one record after the other."""
    while True:
        offset = log.end_offset
        batch = build_batch([NewRecord(offset, b"key", b"%d" % offset)])
        log.append(check_batches(batch, bytes_max=10_000), leader_epoch=0)
        flusher.note_append()
        await flusher.durable(offset + 1)
        sys.stdout.write(f"{offset}\n")
        sys.stdout.flush()


async def main(directory: Path) -> None:
    """Open the log and let several writers share it."""
    log = Log(RealDisk(), directory, SETTINGS)
    flusher = Flusher(log)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(LogMaintenance(lambda: [flusher], SystemClock()).run())
        for _ in range(WRITERS):
            tasks.create_task(write(log, flusher))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
