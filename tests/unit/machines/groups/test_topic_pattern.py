"""Patterns over names of topics: what they match, what is refused, and that nothing keeps the matcher busy."""

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
        ("", "", "a"),
        (".*", "a a.b", "__consumer_offsets __x"),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matched: str, others: str) -> None:
    found = TopicPattern(pattern)
    assert [name for name in f"{matched} {others}".split() if found.matches(name)] == matched.split()


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "a)", "(a", "*a", "a|+", "a**", "a{2}{3}", "a{3,2}", "[a", "[", "[b-a]", r"[\d-z]", "[[:alpha:]]"),
        *("a$b", "a^b", "a(^b)", "(a$)b", "(a|b$)c", "(^a)*", "(a$)+", "a$?", "^^a", "a(b|^c)"),
        *("(?=a)", "(?!a)", "(?>a)", "(?", r"(a)\1", r"\b", r"\pL", "a\\", "(" * 51 + ")" * 51),
    ],
)
def test_what_cannot_be_read_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["x" * 1001, "(a{1000}){1000}", "((){1000}){1000}", "a{1001}", "(((){99}){99}){99}"]
)
def test_a_pattern_cannot_be_too_large(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(a?){400}a{400}b", ".*" * 400 + "b", "(.*a){300}b"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """A matcher that tries one way after another would not come to an end here."""
    found = TopicPattern(pattern)
    assert not found.matches("a" * 249)
    assert not found.matches("a" * 248 + "c")


def test_a_pattern_that_has_seen_much_still_matches_and_does_not_grow() -> None:
    found = TopicPattern("(a|b)*a(a|b){9}")
    names = [format(number, "016b").replace("0", "a").replace("1", "b") for number in range(0, 2**16, 7)]
    assert [found.matches(name) for name in names] == [name[-10] == "a" for name in names]
    assert len(found._moves) <= 2_000
