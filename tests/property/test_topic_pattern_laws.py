"""Patterns over names of topics against Python's regular expressions."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import InvalidPattern
from goqueue.machines.groups.topic_pattern import TopicPattern

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", r"\w", "-"])
REPETITIONS = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}?", "*?"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.builds(lambda part, repetition: f"(?:{part}){repetition}", inner, REPETITIONS),
    )


PATTERNS = st.recursive(ATOMS, _larger, max_leaves=6)
NAMES = st.lists(st.text("ab-.", min_size=1, max_size=6), max_size=10)


@settings(max_examples=300, deadline=None)
@given(pattern=PATTERNS, names=NAMES)
def test_pattern_means_the_same_as_in_python(pattern: str, names: list[str]) -> None:
    found = TopicPattern(pattern)
    for name in names:
        assert found.matches(name) == bool(re.fullmatch(pattern, name, re.ASCII))


@settings(max_examples=300, deadline=None)
@given(text=st.text("ab(|)[]{}*+?\\^$.-,19:P<>i", max_size=12))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        found = TopicPattern(text)
    except InvalidPattern:
        return
    found.matches("abba")
