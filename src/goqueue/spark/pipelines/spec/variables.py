"""Environment variables in the values of a pipeline file.

| written            | stands for                                              |
|--------------------|---------------------------------------------------------|
| `${NAME}`          | the variable; a mistake if there is none                |
| `${NAME:-default}` | the variable, or the default if there is none or it is empty |
| `$${NAME}`         | `${NAME}`, as it is                                     |

Everything else with a dollar sign is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from goqueue.spark.pipelines.spec.nodes import Notes, Scalar

_VARIABLE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def filled_in(scalar: Scalar, environ: Mapping[str, str], notes: Notes) -> Scalar:
    """Return a text with its variables filled in; what is missing is noted."""

    def fill(match: re.Match[str]) -> str:
        escape, name, default = match.groups()
        if escape:
            return match[0][1:]
        value = environ.get(name)
        if value or (value is not None and default is None):
            return value
        if default is not None:
            return default
        notes.error(
            scalar.at(match.start()),
            f"the environment variable {name} is not set",
            f"set it, or write ${{{name}:-default}}",
        )
        return match[0]

    text = _VARIABLE.sub(fill, scalar.text)
    # Once a variable is filled in, the text is not that of the file any more.
    return scalar if text == scalar.text else replace(scalar, text=text, lines=())
