"""Rewords failures of a replay for the command's options, with hints. Pure."""

from __future__ import annotations

import re
from typing import Final

from goqueue.spark.failures import Failure
from goqueue.spark.jobs.replay.topics import RESTART_HINT, gone

ARCHIVE_HINT: Final = (
    "make sure that this machine and every executor can read the archive, or name another with --archive PATH; with "
    "--archive never only the log is replayed"
)
# # Hints of the data source name its options, and this command has others.
_ADVICE_OF_SOURCE: Final = re.compile(r" \((with the option failOnDataLoss|raise max\.message\.bytes).*$")
# # Spark suggests functions such as `try_cast` in errors about single rows.
_ROW_MISTAKE: Final = re.compile(r"`?try_\w+`?")


def reworded(failure: Failure, job: str, target: str) -> Failure:
    """Return a failure without hints that do not apply to this command."""
    if failure.reason.startswith("UnknownTopic") and repr(target) in failure.reason:
        lost = gone(job, target)
        return Failure(lost.message, lost.hint, failure.is_hopeless)
    if failure.reason.startswith(("DataLost", "TooLarge")):
        return Failure(_ADVICE_OF_SOURCE.sub("", failure.reason), failure.hint, failure.is_hopeless)
    return failure


def advice(failure: Failure | None, target: str, where: str, again: str) -> str:
    """Return a hint for a failure; `again` is the text about running the command again."""
    if failure is None:
        return f"after fixing the cause, {again}"
    if failure.hint == RESTART_HINT:
        return ""
    if failure.reason.startswith("DataLost"):
        if "was deleted" in failure.reason:
            return "use --skip-lost to end without the rest"
        return "use --skip-lost to continue without the lost messages"
    if failure.reason.startswith(("ArchiveUnreachable", "WrongArchive")):
        return f"{ARCHIVE_HINT}; {again}"
    if failure.reason.startswith("TooLarge"):
        return (
            f"let topic {target} take it: goqueue topic alter {target} --config max.message.bytes=BYTES; then {again}"
        )
    if where and _ROW_MISTAKE.search(failure.reason):
        return (
            "--where fails for a message: avoid that, for example with try_cast; another condition is another job, so "
            "give it another --name, or use --restart, after which messages may be in the target twice"
        )
    return f"after fixing the cause, {again}"
