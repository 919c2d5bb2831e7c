"""Every rule finds the smallest breach on the right line, and accepts the tidy form."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from textwrap import dedent, indent

import pytest

from tests.tidy import rules
from tests.tidy.rules import Finding, Module, Rule


def lines(rule: Rule, text: str, path: str = "src/goqueue/thing.py") -> list[int]:
    return [finding.line for finding in rule(Module(PurePosixPath(path), dedent(text)))]


def nested(depth: int) -> str:
    body = "pass"
    for _ in range(depth):
        body = "if x:\n" + indent(body, "    ")
    return "def f():\n" + indent(body, "    ")


@pytest.mark.parametrize(
    ("rule", "bad", "line", "good"),
    [
        (rules.starts_with_a_docstring, "x = 1", 1, "'''Owns x.'''\nx = 1"),
        (rules.is_short, "x = 1\n" * 601, 600, "x = 1\n" * 600),
        (rules.has_short_functions, "\ndef f():" + "\n    f()" * 50, 2, "def f():" + "\n    f()" * 49),
        (rules.has_short_functions, "async def f():" + "\n    f()" * 50, 1, "class A:" + "\n    x = 1" * 60),
        (rules.has_flat_functions, nested(5), 6, nested(4)),
        (rules.stays_behind_the_seams, "x = 1\nimport time", 2, "import timeit"),
        (
            rules.stays_behind_the_seams,
            "from random import Random",
            1,
            "from goqueue.seams.entropy import Entropy",
        ),
        (rules.stays_behind_the_seams, "from uuid import uuid4", 1, "from uuid import UUID"),
        (rules.stays_behind_the_seams, "def f():\n    return open('x')", 2, "disk.open('x')"),
        (rules.stays_behind_the_seams, "print('x')", 1, "report.print('x')"),
        (rules.stays_behind_the_seams, "async def f():\n    await asyncio.sleep(1)", 2, "await_event()"),
        (rules.never_sleeps, "from asyncio import sleep\nsleep(1)", 2, "def sleep(): ...\nsleep()"),
        (rules.sleeps_in_virtual_time_only, "asyncio.sleep(1)", 1, "import asyncio"),
        (
            rules.sleeps_in_virtual_time_only,
            "from goqueue.testing import simulate\ntime.sleep(1)",
            2,
            "from goqueue.testing import simulate\nasyncio.sleep(1)",
        ),
        (rules.catches_what_it_names, "try: f()\nexcept: g()", 2, "try: f()\nexcept OSError: g()"),
        (rules.catches_what_it_names, "try: f()\nexcept Exception: g()", 2, "try: f()\nexcept Exception: raise"),
        (rules.catches_what_it_names, "try: f()\nexcept (E, BaseException): g()", 2, "try: f()\nfinally: g()"),
        (rules.has_telling_names, "class LogManager: ...", 1, "class Log: ..."),
        (rules.has_telling_names, "x = 1\nclass TopicInfo: ...", 2, "class Information: ..."),
        (rules.documents_what_is_public, "def f(): ...", 1, "def _f(): ..."),
        (rules.documents_what_is_public, "class A: ...", 1, "class A:\n    'An A.'\n    def f(self): ..."),
    ],
)
def test_a_rule_of_code_bites(rule: Rule, bad: str, line: int, good: str) -> None:
    assert lines(rule, bad) == [line]
    assert lines(rule, good) == []


def test_a_file_name_that_says_nothing_is_found() -> None:
    assert lines(rules.has_telling_names, "", "src/goqueue/log/utils.py") == [1]
    assert lines(rules.has_telling_names, "", "src/goqueue/log/lease_helper.py") == [1]
    assert lines(rules.has_telling_names, "", "src/goqueue/log/segment.py") == []


def test_a_docstring_does_not_make_a_function_long() -> None:
    docstring = "'''Do it." + "\n" * 30 + "    '''"
    assert lines(rules.has_short_functions, f"def f():\n    {docstring}" + "\n    f()" * 49) == []


@pytest.mark.parametrize(
    "flat",
    [
        "if a: f()\n" + "elif b: f()\n" * 9,
        "if a:\n    f()\nelse:\n    def g():\n" + indent(nested(4), " " * 8),
    ],
)
def test_an_elif_and_an_inner_function_do_not_nest_deeper(flat: str) -> None:
    assert lines(rules.has_flat_functions, "def outer():\n" + indent(flat, "    ")) == []


@pytest.mark.parametrize(
    "block", ["for x in y:", "while x:", "with x:", "async with x:", "async for x in y:", "match x:\n case 1:"]
)
def test_every_kind_of_block_counts_as_one_level(block: str) -> None:
    inner = indent(nested(4).split("\n", 1)[1], "  ")
    assert lines(rules.has_flat_functions, f"async def f():\n {indent(block, ' ').strip()}\n{inner}") != []


@pytest.mark.parametrize(
    "text",
    [
        "# TO" + "DO: later",
        "FIX" + "ME",
        "see /ho" + "me/ann/x",
        "'/Us" + "ers/ann/x'",
        "(/wo" + "rk/main)",
        "https://py" + "pi.org/project/x",
        "https://example.com/in" + "dex/simple/x",
    ],
)
def test_text_that_is_not_fit_to_publish_is_found(text: str) -> None:
    assert [finding.line for finding in rules.is_fit_to_publish(f"fine\n{text}\nfine")] == [2]


@pytest.mark.parametrize("text", ["the method", "./work/x", "https://example.com/home/x", "a home, some work/rest"])
def test_ordinary_text_is_fit_to_publish(text: str) -> None:
    assert list(rules.is_fit_to_publish(text)) == []


def test_a_link_that_leads_nowhere_is_found_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "there.md").write_text('# A `part`: two\n<a id="old"></a>\n```\n# no heading\n```\n')
    text = (
        "[good](docs/there.md#a-part-two) [set](docs/there.md#old) [web](https://example.com#x)\n"
        "`[code](a.md)`\n[bad](docs/gone.md)\n[worse](docs/there.md#no-heading)"
    )
    found = list(rules.has_working_links(tmp_path / "README.md", text))
    assert found == [
        Finding(3, "the link to docs/gone.md leads nowhere"),
        Finding(4, "there.md has no heading #no-heading"),
    ]
