"""Patterns over names of topics: matches, refusals, and bounds of time and memory."""

from __future__ import annotations

import pytest

from goqueue.errors import InvalidPattern
from goqueue.machines.groups.topic_pattern import TopicPattern


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("orders", "orders", "order orders2 xorders Orders"),
        ("orders.*", "orders orders2 orders-eu", "order xorders"),
        ("^orders|audit$", "orders audit", "ordersaudit orders2"),
        ("(^orders.*)|(^a(u|x)dit$)", "orders orders2 audit axdit", "audit2 xaudit"),
        ("((^a)b$)", "ab", "a b aab abb"),
        (r"team-[0-9]+\.(in|out)", "team-1.in team-42.out", "team-.in team-1xin team-1.inout"),
        ("x{2,3}y{2}z{1,}", "xxyyz xxxyyzzz", "xyyz xxxxyyz xxyz xxyy"),
        ("(?i)Orders", "orders ORDERS oRdErS", "order"),
        ("(?i)[a-c]x", "ax AX Cx", "dx"),
        ("[^a-y]+", "z A 9 z-z", "a zay"),
        ("[a-]+", "a - a-", "b"),
        ("[]a]", "a", "b"),
        (r"\w+", "a_1", "a-1"),
        (r"\d\D", "1a 1-", "11 aa"),
        (r"a\.b", "a.b", "axb"),
        ("(?:a|b)?(?P<rest>c+?)", "c ac bcc", "abc a"),
        ("(a|)b", "ab b", "a"),
        ("{a}", "", "a"),
        ("é", "", "e"),
        ("a$b|^^c", "c", "ab a$b"),
        ("[[:alpha:]]+", "aB", "a1"),
        ("", "", "a"),
        (".*", "a a.b", "__consumer_offsets __x"),
    ],
)
def test_pattern_matches_whole_names(pattern: str, matched: str, others: str) -> None:
    found = TopicPattern(pattern)
    assert [name for name in f"{matched} {others}".split() if found.matches(name)] == matched.split()


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "a)", "(a", "*a", "a|+", "a**", "a{2}{3}", "a{3,2}", "[a", "[", "[b-a]", "a\\", "a\udc80"),
        *("(?=a)", "(?!a)", "(?>a)", "(?", r"(a)\1"),
    ],
)
def test_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(pattern)


def test_refusal_names_pattern_and_reason() -> None:
    with pytest.raises(InvalidPattern, match=r"the pattern 'a\(b' is invalid: missing \): a\(b"):
        TopicPattern("a(b")


@pytest.mark.parametrize(
    "pattern", ["x" * 1001, "(a{1000}){1000}", "((){1000}){1000}", "a{1001}", "(((){99}){99}){99}", r"\pL{1000}"]
)
def test_too_large_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(a?){400}a{400}b", ".*" * 400 + "b", "(.*a){300}b"]
)
def test_hostile_pattern_is_matched_in_linear_time(pattern: str) -> None:
    """A backtracking matcher would never finish here."""
    found = TopicPattern(pattern)
    assert not found.matches("a" * 249)
    assert not found.matches("a" * 248 + "c")


def test_pattern_with_many_states_still_matches() -> None:
    found = TopicPattern("(a|b)*a(a|b){9}")
    names = [format(number, "016b").replace("0", "a").replace("1", "b") for number in range(0, 2**16, 7)]
    assert [found.matches(name) for name in names] == [name[-10] == "a" for name in names]
