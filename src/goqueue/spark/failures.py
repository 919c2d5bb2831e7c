"""Extracts the reason of a failed query, in one sentence, from Spark's stack traces.

An exception raised in Python is the cause; the Java exceptions around it are not. Otherwise Spark's own message is.
Permanent failures, which a retry would repeat, are marked as hopeless.
"""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from typing_extensions import override

from goqueue.errors import Conflict, GoQueueError, Invalid

REASON_CHARACTERS_MAX: Final = 500

_TRACEBACK: Final = "Traceback (most recent call last):"
_BEFORE: Final = re.compile(r"^.*?terminated with exception: ", re.DOTALL)
_QUERY_STATE: Final = re.compile(r"\n=== Streaming Query ===.*", re.DOTALL)
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}")
_JAVA_FRAME: Final = re.compile(r"^\s*(at [\w.$/<>@]+\(.*\)|\.\.\. \d+ more)$")
_JAVA_CALL: Final = re.compile(r"^An error occurred while calling [\w.]+\.\s*:?\s*")
_JAVA_ERROR: Final = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+(?:[A-Z]\w*[.$])*([A-Z]\w*(?:Exception|Error)): ")
# # Mistakes in options come without a stack trace, see `goqueue.spark.source.data_source`.
_OURS: Final = re.compile(r"\bgoqueue(?:\.\w+)+\.(?P<name>[A-Z]\w*): (?P<message>.*)", re.DOTALL)
_ERROR_CLASS: Final = re.compile(r"^\[[A-Z][A-Z0-9_.]+\]\s*")
_PYTHON_ERROR: Final = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.DOTALL)
_FRAME: Final = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)', re.MULTILINE)
_LIBRARIES: Final = ("site-packages", "dist-packages", "pyspark.zip", "/pyspark/", "/goqueue/", "<frozen")
# # The standard library, here and on the machine of the trace.
_STDLIB_HERE: Final = sysconfig.get_paths()["stdlib"]
_STANDARD_LIBRARY: Final = re.compile(r"[/\\][Ll]ib[/\\]python3\.\d+t?[/\\]|[/\\]python3\d+\.zip[/\\]")
# # Messages of Spark and of the source about a checkpoint that does not fit its query.
_MISFITS: Final = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_SCHEMA",
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
    "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
    "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
    "STATE_STORE_OPERATION_OUT_OF_ORDER",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STATEFUL_OPERATOR",
    "sources in the checkpoint offsets and now there are",
    "the checkpoint belongs to a query over another source",
    "Provided schema doesn't match to the schema for existing state",
)
_LOST_BATCH: Final = re.compile(r"batch \d+ doesn't exist")
_HOPELESS: Final = (
    "CheckpointOutdated",
    "DataLost",
    "ForeignCheckpoint",
    "ImportError",
    "Invalid",
    "InvalidSettings",
    "ModuleNotFoundError",
    "Overtaken",
    "TooLarge",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason of a failure, a hint, and whether a retry may help."""

    reason: str
    hint: str = ""
    is_hopeless: bool = False
    is_consequence: bool = False
    """Whether it was only stopped because of another failure."""

    @override
    def __str__(self) -> str:
        return f"{self.reason} ({self.hint})" if self.hint else self.reason


def failure_of(error: BaseException, checkpoint: str = "") -> Failure:
    """Return the reason of a failed query; `checkpoint` is its directory."""
    if isinstance(error, GoQueueError):
        return Failure(_short(error.message), error.hint, is_hopeless=isinstance(error, Invalid | Conflict))
    text = str(error)
    kind = type(error).__name__
    if checkpoint and (any(sign in text for sign in _MISFITS) or _LOST_BATCH.search(text)):
        return Failure(
            f"the checkpoint does not fit the pipeline, which has changed since: {reason_in(text)}",
            f"give the sink another name, or remove {checkpoint}; it then starts over, from the start of its sources, "
            f"and writes files to another path",
            is_hopeless=True,
        )
    if _is_of_spark(error):
        reason = reason_in(text)
        is_hopeless = kind in {"AnalysisException", "ParseException", "PySparkTypeError"} or _names_hopeless(reason)
        return Failure(reason, is_hopeless=is_hopeless)
    place = _place(_frames_of(error))
    return Failure(_short(f"{kind}: {text}{place}"), is_hopeless=not isinstance(error, OSError))


def reason_in(text: str) -> str:
    """Return the cause in an error text of Spark, on one line."""
    text = _QUERY_STATE.sub("", _BEFORE.sub("", text))
    if _TRACEBACK in text:
        return _short(_python_reason(text))
    if ours := _OURS.search(text):
        message = "\n".join(_until_stack(_SQL_STATE.sub("", ours["message"]).splitlines()))
        return _short(f"{ours['name']}: {message}")
    text = _JAVA_CALL.sub("", _SQL_STATE.sub("", text))
    lines = [line for line in text.splitlines() if line.strip() and not _JAVA_FRAME.match(line)]
    told = _JAVA_ERROR.sub("", " ".join(_until_stack(lines)))
    caused = [line for line in lines if line.startswith("Caused by: ")]
    if caused and not _ERROR_CLASS.match(told):
        return _short(_ERROR_CLASS.sub("", _JAVA_ERROR.sub(r"\1: ", caused[-1])))
    # # Spark explains its named errors best itself.
    return _short(_ERROR_CLASS.sub("", told))


def _python_reason(text: str) -> str:
    """Return the exception raised in Python, and its line in the code of the user."""
    # # Of chained exceptions, the last one ended the task.
    trace = _SQL_STATE.sub("", text.rpartition(_TRACEBACK)[2])
    frames = list(_FRAME.finditer(trace))
    behind = trace[frames[-1].end() :] if frames else trace
    lines: list[str] = []
    for line in behind.splitlines():
        if _JAVA_FRAME.match(line) or (lines and not line.strip()):
            break
        # Lines of code, and marks below them, are indented; the error is not.
        if lines or (line and not line[0].isspace()):
            lines.append(line.strip())
    match = _PYTHON_ERROR.match("\n".join(lines))
    if match is None:
        return " ".join(lines)
    name = match["name"].rpartition(".")[2]
    message = " ".join((match["message"] or "").split())
    files = [(found["file"], int(found["line"]), found["function"]) for found in frames]
    return f"{name}: {message}{_place(files)}" if message else f"{name}{_place(files)}"


def _place(frames: list[tuple[str, int, str]]) -> str:
    """Return the innermost line that is not in a library."""
    for file, line, function in reversed(frames):
        if not any(library in file for library in _LIBRARIES) and not _is_standard(file):
            return f" (line {line} of {PurePath(file).name}, in {function})"
    return ""


def _is_standard(file: str) -> bool:
    """Return whether a file belongs to Python's standard library."""
    return file.startswith(f"{_STDLIB_HERE}/") or _STANDARD_LIBRARY.search(file) is not None


def _frames_of(error: BaseException) -> list[tuple[str, int, str]]:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return frames


def _until_stack(lines: list[str]) -> list[str]:
    """Return the message of a Java error, without the stack and the query plan after it."""
    found: list[str] = []
    for line in lines:
        if line.startswith(("Driver stacktrace", "JVM stacktrace", "Caused by: ", "== ", "'", "+-", ";")):
            break
        found.append(line.strip())
    return found


def _is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in {"pyspark", "py4j"}


def _names_hopeless(reason: str) -> bool:
    return reason.partition(":")[0] in _HOPELESS


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARACTERS_MAX else f"{line[: REASON_CHARACTERS_MAX - 3]}..."
