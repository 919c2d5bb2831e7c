"""Plain words: the worst habits of our prose, and how many of them each file still has.

Reads Markdown, and in Python docstrings, comments, texts of more than one word, and names of tests. Code in Markdown
(between backticks) is not read, and neither are headings where a rule is about how a sentence opens.

`debt.txt` lists the files that are not clean yet, as `path count`. A count may only shrink:

    python -m tests.tidy.prose              show what is wrong, file by file; with paths: only there
    python -m tests.tidy.prose --settle     after files were moved or merged: carry their counts over
    python -m tests.tidy.prose --tighten    set every count to what is found
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tests.tidy.rules import Finding
from tests.tidy.tree import texts

DEBT = Path(__file__).with_name("debt.txt")
# Both quote what they forbid.
_UNREAD = {PurePosixPath("tests/tidy/prose.py"), PurePosixPath("tests/tidy/test_prose.py")}

_LAGS = ("left", "leave", "leaves", "leaving", "fall", "falls", "falling", "fallen", "fell", "lag", "lags", "far")
_COVERS = "proxy|proxies|load|balancer|firewall|gateway|seam|seams|interface|interfaces|flag|switch|scenes|schedule"
_FORBIDDEN = {
    re.compile(r"\b(?:[Nn]o|[Ss]ome|[Ee]very|[Aa]ny)body\b|\b[Ww]hoever\b"): (
        "name the actor: consumer, producer, worker, caller, broker"
    ),
    re.compile(r"\b(?:made|make|makes|making)\s(?:\w+\s)?anew\b"): "re-created, rebuilt, started again",
    re.compile(
        r"\b[Bb]ehind\b"
        + "".join(rf"(?<!\b{word}\sbehind)" for word in _LAGS)
        + rf"(?=\s[\w`]|(?<=\bthose\sbehind))(?!\s(?:a|an|the|one|its)\s(?:\w+\s)?(?:{_COVERS})\b)"
    ): "after an offset, a message or a word; `behind` is for lag",
    re.compile(
        r"\b(?:is|are|was|were|be|been|being)\stold\b(?!\s(?:from|apart)\b)"
    ): "say what the caller gets, or sees",
    re.compile(r"\bSay\sthat\b"): "a docstring begins with what the function does: Acknowledge, Return, Report",
    re.compile(
        r"\b[Hh]a(?:ve|s)\s(?:it|them|all|everything|something|messages|an?\s\w+|the\s\w+|no\s\w+)\s(?:[\w`]+\s){0,4}?done\b"
    ): "do it",
}
_OPENING = re.compile(
    r"(?:^|[.!?:]\s)(?P<word>(?:One\sof|All\sof|Of)\swhich|Who|Whoever|Whose|Whom|What)\b[^.!?]*(?P<end>.?)"
)
# The formatter puts two spaces before a comment that shares its line.
_COMMENT = re.compile(r"(?:^\s*|\S\s\s)#:?\s(?P<words>.*)")
_TEST_NAME = re.compile(r"^\s*(?:async )?def test_(?P<words>\w+)", re.MULTILINE)
_OPENING_RULE = "a sentence opens with its subject, not with a clause"


class Passage(NamedTuple):
    """A run of prose; `is_heading` if it is a title, which may open as it likes."""

    line: int
    text: str
    is_heading: bool = False


def findings_in(path: PurePosixPath, text: str) -> list[Finding]:
    """Return what is wrong with the prose of a file, in order."""
    if path in _UNREAD:
        return []
    return sorted(
        (found for passage in _passages(path, text) for found in _judge(passage)), key=lambda found: found.line
    )


def found_in_repository() -> dict[str, list[Finding]]:
    """Return the findings of every file that has some."""
    found = {str(path): findings_in(path, text) for path, text in texts().items()}
    return {path: findings for path, findings in found.items() if findings}


def read_debt() -> dict[str, int]:
    """Return how many findings each file may still have; where a merge has kept two counts, the larger one."""
    debt: dict[str, int] = {}
    for line in DEBT.read_text("utf-8").splitlines():
        path, count = line.rsplit(" ", 1)
        debt[path] = max(debt.get(path, 0), int(count))
    return debt


def settled(debt: Mapping[str, int], counts: Mapping[str, int], kept: Iterable[str]) -> dict[str, int]:
    """Return the debt after moves: entries of files that are gone leave, files above their entry get a new one.

    Raises ValueError if that is more than before: then somewhere a sentence became worse.
    """
    renewed = {path: count for path, count in debt.items() if path in set(kept)}
    renewed |= {path: count for path, count in counts.items() if count > renewed.get(path, 0)}
    if sum(renewed.values()) > sum(debt.values()):
        raise ValueError("there is more to reword than before: fix what you wrote")
    return renewed


def _judge(passage: Passage) -> Iterator[Finding]:
    # One space for any run of white space, so that a pattern may cross the end of a line.
    text = re.sub(r"(\s)\s+", r"\1", passage.text)
    for pattern, rule in _FORBIDDEN.items():
        for match in pattern.finditer(text):
            yield _finding(passage, text, match, rule)
    if not passage.is_heading:
        for match in _OPENING.finditer(text):
            if match["end"] != "?":
                yield _finding(passage, text, match, _OPENING_RULE, "word")


def _finding(passage: Passage, text: str, match: re.Match[str], rule: str, group: str | int = 0) -> Finding:
    quoted = " ".join(match[group].split())
    return Finding(passage.line + text.count("\n", 0, match.start(group)), f"{quoted!r}: {rule}")


def _passages(path: PurePosixPath, text: str) -> Iterator[Passage]:
    if path.suffix == ".md":
        yield from _markdown(text)
    elif path.suffix == ".py":
        yield from _strings(ast.parse(text))
        yield from _comments(text)
        yield from _test_names(text)


def _markdown(text: str) -> Iterator[Passage]:
    """Yield paragraphs, items, cells and headings."""
    prose = re.sub(r"^```.*?^```$", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"``?[^`]+``?", lambda code: "`" + "\n" * code[0].count("\n") + "`", prose)
    line = 1
    for part in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|\||#|>)\s)|(?<=[^\n])\|)", prose):
        cleaned = re.sub(r"^[\s>]*(?:[-*]|\d+\.|\||#+)?\s*(?:\[.\]\s)?\**", "", part)
        skipped = part[: len(part) - len(cleaned)]
        yield Passage(line + skipped.count("\n"), cleaned, is_heading=skipped.lstrip().startswith("#"))
        line += part.count("\n")


def _strings(tree: ast.AST) -> Iterator[Passage]:
    """Yield docstrings and texts; an f-string is one text."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield from _sentences(node.lineno, "".join(parts))
            pending.extend(part for part in node.values if not isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _sentences(node.lineno, node.value)
        else:
            pending.extend(ast.iter_child_nodes(node))


def _sentences(line: int, text: str) -> Iterator[Passage]:
    if len(text.split()) > 1:
        yield from (Passage(line + above.line - 1, above.text, above.is_heading) for above in _markdown(text))


def _comments(text: str) -> Iterator[Passage]:
    """Yield comments; those on lines that follow one another are one."""
    first, last, words = 0, 0, list[str]()
    for line, comment in enumerate(map(_COMMENT.search, text.splitlines()), 1):
        if comment:
            if line != last + 1:
                yield Passage(first, "\n".join(words))
                first, words = line, []
            last = line
            words.append(comment["words"])
    yield Passage(first, "\n".join(words))


def _test_names(text: str) -> Iterator[Passage]:
    for name in _TEST_NAME.finditer(text):
        yield Passage(text.count("\n", 0, name.start("words")) + 1, name["words"].replace("_", " ").capitalize())


def _main(arguments: list[str]) -> None:
    found = found_in_repository()
    counts = {path: len(findings) for path, findings in found.items()}
    match arguments:
        case ["--settle"]:
            _write(settled(read_debt(), counts, map(str, texts())))
        case ["--tighten"]:
            _write(settled(counts, counts, counts))
        case _:
            for path, findings in found.items():
                if not arguments or path.startswith(tuple(arguments)):
                    sys.stdout.writelines(f"{path}:{finding.line}: {finding.rule}\n" for finding in findings)


def _write(debt: Mapping[str, int]) -> None:
    DEBT.write_text("".join(f"{path} {count}\n" for path, count in sorted(debt.items())), "utf-8")


if __name__ == "__main__":
    _main(sys.argv[1:])
