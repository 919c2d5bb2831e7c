"""Checks whether a Spark plan depends on time or randomness, which the files of user functions do not show.

Spark's own plan says it of every expression, and a sample of rows is a plan of its own. With Spark Connect there is
only what this side asks for: names of functions, pieces of SQL, and functions in Python with a flag. A view is just
a name there, so whatever it is made of has to be looked at by itself.

A Python function counts as nondeterministic only with `asNondeterministic()`. `input_file_name()` is accepted: a row of
a file always comes from that file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.session import is_remote
from goqueue.spark.sql.nondeterminism import RANDOM_FUNCTIONS, TIME_FUNCTIONS, nondeterminism_in

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from pyspark.sql import DataFrame

_TIME_CLASSES: Final = ("CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now")
_FILE_CLASSES: Final = ("InputFileBlockLength", "InputFileBlockStart", "InputFileName")
_FUNCTION_IN_PYTHON: Final = "a function that is marked as nondeterministic"
_SAMPLE: Final = "a sample of rows"


def nondeterminism_of(rows: DataFrame) -> str:
    """Return something that rows depend on, of time or chance, as people call it; nothing if there is none."""
    # Only Spark knows, and only its insides tell; a test holds on to them.
    inside: Any = rows
    if is_remote(rows.sparkSession):
        return next(_asked(inside._plan.to_proto(rows.sparkSession.client)), "")
    of_time = inside.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return next(_planned(inside._jdf.queryExecution().analyzed(), of_time), "")


def _planned(plan: Any, of_time: Any) -> Iterator[str]:
    if plan.getClass().getSimpleName() == "Sample":
        yield _SAMPLE
    # Each question costs a while, and a plan may have thousands of expressions: most plans are above suspicion.
    if not plan.deterministic() or plan.containsPattern(of_time):
        for expression in _each(plan.expressions()):
            yield from _computed(expression)
    for further in (plan.children(), plan.subqueries()):
        for each in _each(further):
            yield from _planned(each, of_time)


def _computed(expression: Any) -> Iterator[str]:
    parts = list(_each(expression.children()))
    kind = expression.getClass().getSimpleName()
    is_to_blame = not expression.deterministic() and all(part.deterministic() for part in parts)
    if kind in _TIME_CLASSES:
        yield f"{expression.prettyName()}()"
    elif is_to_blame and kind.startswith("Python"):
        yield _FUNCTION_IN_PYTHON
    elif is_to_blame and kind not in _FILE_CLASSES and not kind.endswith("Subquery"):
        yield f"{expression.prettyName()}()"
    for part in parts:
        yield from _computed(part)


def _each(sequence: Any) -> Iterator[Any]:
    """Yield what a sequence of Scala holds."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _asked(message: Message) -> Iterator[str]:
    """Yield what a plan of Spark Connect, or a part of it, asks for."""
    found: Any = message
    match message.DESCRIPTOR.name:
        case "UnresolvedFunction" if found.function_name.lower() in TIME_FUNCTIONS | RANDOM_FUNCTIONS:
            yield f"{found.function_name}()"
        case "CommonInlineUserDefinedFunction" if not found.deterministic:
            yield _FUNCTION_IN_PYTHON
        case "ExpressionString" if chance := nondeterminism_in(found.expression):
            yield chance
        case "SQL" if chance := nondeterminism_in(found.query):
            yield chance
        case "Sample":
            yield _SAMPLE
    for _, value in message.ListFields():
        for each in value if _is_list(value) else (value,):
            if hasattr(each, "DESCRIPTOR"):
                yield from _asked(each)


def _is_list(value: object) -> bool:
    return not isinstance(value, str | bytes) and hasattr(value, "__len__")
