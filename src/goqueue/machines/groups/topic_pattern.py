"""Patterns over names of topics: RE2, so that matching takes linear time whatever pattern a client sends.

A pattern has to match the whole name; `^` and `$` at its ends change nothing. Internal topics are never matched.
"""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakValueDictionary

from goqueue.errors import InvalidPattern
from goqueue.model.topic import is_internal

PATTERN_MAX = 1000
"""Characters of a pattern."""

_MEMORY_BYTES_MAX = 512 * 1024
"""For a compiled pattern and its states; more states are forgotten and computed again."""


@lru_cache(maxsize=32)
def topic_pattern(text: str) -> TopicPattern:
    """Return the compiled pattern; InvalidPattern if RE2 refuses it or it is too large.

    A pattern that is still in use is not compiled again.
    """
    found = _kept.get(text)
    if found is None:
        found = _kept[text] = TopicPattern(text)
    return found


class TopicPattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_MAX:
            raise InvalidPattern(f"the pattern has {len(text)} characters", hint=f"at most {PATTERN_MAX}")
        import re2  # here, since few brokers need it and its import takes 8 ms

        options = re2.Options()
        options.max_mem = _MEMORY_BYTES_MAX
        options.never_capture = True
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise InvalidPattern(f"the pattern {_shortened(text)!r} is invalid: {_reason(error)}") from None

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches the name of a topic that is not internal."""
        return not is_internal(name) and self._compiled.fullmatch(name) is not None


_kept: WeakValueDictionary[str, TopicPattern] = WeakValueDictionary()


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "..."


def _reason(error: Exception) -> str:
    """Return the sentence of an error of RE2, which is in bytes."""
    reason = error.args[0]
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else "it is not valid UTF-8"
