"""Writes a small closed log to tests/golden/log, so that later versions prove that they still read what this one wrote.

    python -m tests.golden.make_log

Run it only when the format on disk changes on purpose, and raise the version in `goqueue.log.sidecar` or
`goqueue.log.checkpoint` in the same change.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from goqueue.log.batches import check_batches
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.control import ControlType, build_marker
from goqueue.seams.disk import RealDisk

TARGET = Path(__file__).parent / "log"
SETTINGS = LogSettings(segment_bytes=1024, index_interval_bytes=100)
FIRST_MS = 1_700_000_000_000


def batches() -> list[bytearray]:
    """Return plain, compressed, idempotent and transactional batches, and both kinds of markers."""
    made = []
    for number in range(8):
        record = NewRecord(FIRST_MS + number, b"key-%d" % number, b"value-%d" % number, [("n", b"%d" % number)])
        made.append(build_batch([record]))
        made.append(
            build_batch([record] * 3, codec=Codec.GZIP, producer_id=7, producer_epoch=1, base_sequence=number * 3)
        )
        made.append(build_batch([record], producer_id=8, producer_epoch=2, base_sequence=number, is_transactional=True))
        end = ControlType.ABORT if number % 2 else ControlType.COMMIT
        made.append(build_marker(end, producer_id=8, producer_epoch=2, timestamp=FIRST_MS + number))
    return made


def main() -> None:
    """Write the log anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    log = Log(RealDisk(), TARGET, SETTINGS)
    for number, batch in enumerate(batches()):
        log.append(check_batches(batch, bytes_max=10_000), leader_epoch=number // 10)
    log.delete_before(2)
    log.close()


if __name__ == "__main__":
    main()
