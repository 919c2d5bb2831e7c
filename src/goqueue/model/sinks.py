"""How the transactions of a sink are called: one for each task that stages records, all looked after in one place.

A sink writes batch after batch, each by several tasks at the same time and more than once if a task is repeated. Every
attempt of a task stages its records in a transaction of its own, and those that are wanted are committed together. So
one coordinator has to know all of them: whoever looks for it goes by the sink.

    goqueue-sink:SINK:TASK:ATTEMPT    the transactional id of an attempt
    goqueue-sink:SINK                 what decides where these are looked after
"""

from __future__ import annotations

import re

from goqueue.errors import Invalid

SINK_NAME = "[A-Za-z0-9._-]{1,200}"
"""What a sink may be called, as a pattern."""

_PREFIX = "goqueue-sink:"
_NAME = re.compile(SINK_NAME)
_STAGE = re.compile(rf"({_PREFIX}{SINK_NAME}):[0-9]{{1,10}}:[0-9]{{1,10}}")


def sink_key(sink: str) -> str:
    """Return what a sink is looked after under; Invalid if it cannot be called so."""
    if not _NAME.fullmatch(sink):
        raise Invalid(f"a sink cannot be called {sink[:250]!r}", hint="up to 200 letters, digits, dots, dashes")
    return _PREFIX + sink


def stage_id(sink: str, task: int, attempt: int) -> str:
    """Return the transactional id under which an attempt of a task stages its records."""
    return f"{sink_key(sink)}:{task}:{attempt}"


def coordination_key(transactional_id: str) -> str:
    """Return the name that decides who looks after a transactional id."""
    if not transactional_id.startswith(_PREFIX):
        return transactional_id
    stage = _STAGE.fullmatch(transactional_id)
    return transactional_id if stage is None else stage[1]


def is_sink_key(name: str) -> bool:
    """Tell whether a name is that of a sink, so that no transaction can be called so."""
    return name.startswith(_PREFIX) and bool(_NAME.fullmatch(name, len(_PREFIX)))
