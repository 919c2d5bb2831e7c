"""What people are told if a replay fails: in the words of the command, and what to do then. Pure."""

from __future__ import annotations

import re
from typing import Final

from goqueue.spark.failures import Failure
from goqueue.spark.jobs.replay.topics import RESTART_HINT, gone

ARCHIVE_HINT: Final = (
    "see that the archive can be read from here and from every executor, or name another with --archive PATH; with "
    "--archive never only what the log has is replayed"
)
# What the data source advises is about its options, and this command has others.
_ADVICE_OF_SOURCE: Final = re.compile(r" \((with the option failOnDataLoss|raise max\.message\.bytes).*$")
# Spark names functions that take any row, `try_cast` for example, in what it says about one that does not.
_ROW_MISTAKE: Final = re.compile(r"`?try_\w+`?")


def reworded(failure: Failure, job: str, target: str) -> Failure:
    """Return a failure without what only holds for other ways to read and write."""
    if failure.reason.startswith("UnknownTopic") and repr(target) in failure.reason:
        lost = gone(job, target)
        return Failure(lost.message, lost.hint, failure.is_hopeless)
    if failure.reason.startswith(("DataLost", "TooLarge")):
        return Failure(_ADVICE_OF_SOURCE.sub("", failure.reason), failure.hint, failure.is_hopeless)
    return failure


def advice(failure: Failure | None, target: str, where: str, again: str) -> str:
    """Return what to do about a failure, after which `again` is possible."""
    if failure is None:
        return f"when the cause is removed, {again}"
    if failure.hint == RESTART_HINT:
        return ""
    if failure.reason.startswith("DataLost"):
        if "was deleted" in failure.reason:
            return "with --skip-lost it ends without the rest"
        return "with --skip-lost it goes on without what is lost"
    if failure.reason.startswith(("ArchiveUnreachable", "WrongArchive")):
        return f"{ARCHIVE_HINT}; {again}"
    if failure.reason.startswith("TooLarge"):
        return (
            f"let topic {target} take it: goqueue topic alter {target} --config max.message.bytes=BYTES; then {again}"
        )
    if where and _ROW_MISTAKE.search(failure.reason):
        return (
            "--where fails for a message: write one that does not, with try_cast for example; as it is another job "
            "then, give it another --name, or --restart, with which messages may be in the target twice"
        )
    return f"when the cause is removed, {again}"
