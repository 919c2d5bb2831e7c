"""Rules of tidiness: each is a function that takes a file and yields findings.

Owns the rules and their limits; knows neither the files nor the exceptions, which are in `test_tidy`. Rules about code
look at the syntax tree, rules about text at the text. Linters check formatting, unused names, complexity and imports.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 50
NESTING_MAX = 4

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Block = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.TryStar | ast.Match
_VAGUE_NAME = re.compile(r"(Manager|Helper|Util|Impl|Info)s?$", re.IGNORECASE)
_OUTSIDE_MODULES = frozenset({"time", "random", "secrets", "uuid"})
_OUTSIDE_BUILTINS = frozenset({"open", "print"})
_SLEEPS = frozenset({"asyncio.sleep", "time.sleep"})
_BROAD_ERRORS = frozenset({"Exception", "BaseException"})
# Each pattern has a bracket in the middle, so that this file keeps its own rules.
_FORBIDDEN_TEXT = {
    re.compile(r"\b(?:T[O]DO|F[I]XME)\b"): "do it now, or leave the note out",
    re.compile(r"(?<![\w.~}])/(?:h[o]me|U[s]ers|r[o]ot|w[o]rk)/\w"): "a path of one machine means nothing on another",
    re.compile(
        r"py[p]i\.org|files\.python[h]osted|npm[j]s\.|repo1\.mav[e]n|deb\.deb[i]an|https?://\S*index[/]simple"
    ): "the source of packages is a setting of the machine, not of the project",
}
_MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)")
_MARKDOWN_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file, with its path from the root of the repository."""

    path: PurePosixPath
    text: str
    tree: ast.Module = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", ast.parse(self.text))


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: its line, and the rule in a sentence."""

    line: int
    rule: str


Rule = Callable[[Module], Iterator[Finding]]


def starts_with_a_docstring(module: Module) -> Iterator[Finding]:
    """Require a docstring."""
    if not ast.get_docstring(module.tree):
        yield Finding(1, "a module begins with a docstring: what it owns and what it refuses to know")


def is_short(module: Module) -> Iterator[Finding]:
    """Limit the lines of a file."""
    count = len(module.text.splitlines())
    if count > FILE_LINES_MAX:
        yield Finding(FILE_LINES_MAX, f"a file has at most {FILE_LINES_MAX} lines, this one has {count}: split it")


def has_short_functions(module: Module) -> Iterator[Finding]:
    """Limit the lines of a function, without its docstring."""
    for function in _functions(module):
        first, *_ = function.body
        docstring_lines = _line_count(first) if ast.get_docstring(function) else 0
        count = _line_count(function) - docstring_lines
        if count > FUNCTION_LINES_MAX:
            yield Finding(function.lineno, f"a function has at most {FUNCTION_LINES_MAX} lines, this one has {count}")


def has_flat_functions(module: Module) -> Iterator[Finding]:
    """Limit nested blocks; an inner function counts from its own start."""
    for function in _functions(module):
        for block, depth in _blocks(function.body, 1):
            if depth == NESTING_MAX + 1:
                yield Finding(
                    block.lineno, f"blocks nest at most {NESTING_MAX} deep; branch here, compute in a function"
                )


def stays_behind_the_seams(module: Module) -> Iterator[Finding]:
    """Require that time, randomness, files and output come from seams."""
    for node, name in _imports(module):
        if name.split(".")[0] in _OUTSIDE_MODULES and name != "uuid.UUID":
            yield Finding(node.lineno, f"{name} is reached through a seam, not imported")
    for call, name in _calls(module):
        if name in _OUTSIDE_BUILTINS:
            yield Finding(call.lineno, f"{name}() belongs to the disk or the command line; core code emits events")
    yield from never_sleeps(module)


def never_sleeps(module: Module) -> Iterator[Finding]:
    """Forbid sleeping: code waits for a fact or a deadline."""
    imported = {name.rpartition(".")[2]: name for _, name in _imports(module) if name in _SLEEPS}
    for call, called in _calls(module):
        name = imported.get(called, called)
        if name in _SLEEPS:
            yield Finding(call.lineno, f"{name}() waits for a while; wait for what should happen, with a deadline")


def sleeps_in_virtual_time_only(module: Module) -> Iterator[Finding]:
    """Allow sleeping only on the simulated loop, where it takes no time."""
    is_simulated = any(
        name.startswith("goqueue.testing") and name.endswith(".simulate") for _, name in _imports(module)
    )
    for finding in never_sleeps(module):
        if not is_simulated or finding.rule.startswith("time."):
            yield finding


def catches_what_it_names(module: Module) -> Iterator[Finding]:
    """Require that handlers name the errors they expect, or raise them again."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not _raises_again(node):
            yield Finding(node.lineno, "only the edge of a task or connection may catch every error")


def has_telling_names(module: Module) -> Iterator[Finding]:
    """Forbid vague names of files and classes."""
    if _VAGUE_NAME.search(module.path.stem):
        yield Finding(1, f"a file named {module.path.name} can hold anything; name what it owns")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and _VAGUE_NAME.search(node.name):
            yield Finding(node.lineno, f"a class named {node.name} can do anything; name what it is")


def documents_what_is_public(module: Module) -> Iterator[Finding]:
    """Require docstrings of public classes and functions; methods may leave that to their protocol."""
    for node in module.tree.body:
        if not isinstance(node, _Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            yield Finding(node.lineno, f"{node.name} is public and has no docstring")


def is_fit_to_publish(text: str) -> Iterator[Finding]:
    """Forbid notes to come back later, paths of a machine, and addresses of package indexes."""
    for pattern, rule in _FORBIDDEN_TEXT.items():
        for match in pattern.finditer(text):
            yield Finding(_line_of(text, match.start()), f"{match.group()!r}: {rule}")


def has_working_links(path: Path, text: str) -> Iterator[Finding]:
    """Require that relative links of a Markdown file lead to files, and to headings that these have."""
    blanked = _MARKDOWN_CODE.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text)
    for match in _MARKDOWN_LINK.finditer(blanked):
        if _HAS_SCHEME.match(match.group(1)):
            continue
        target, _, anchor = match.group(1).partition("#")
        file = path.parent / target if target else path
        if not file.exists():
            yield Finding(_line_of(text, match.start()), f"the link to {target} leads nowhere")
        elif anchor and file.suffix == ".md" and anchor not in _anchors(file.read_text("utf-8")):
            yield Finding(_line_of(text, match.start()), f"{file.name} has no heading #{anchor}")


def _anchors(text: str) -> set[str]:
    """Return the anchors of a Markdown text: its headings as GitHub names them, and those that are set by hand."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    named = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return {*named, *re.findall(r'<a id="([^"]+)"', text)}


def _functions(module: Module) -> Iterator[_Function]:
    return (node for node in ast.walk(module.tree) if isinstance(node, _Function))


def _line_count(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _blocks(statements: list[ast.stmt], depth: int) -> Iterator[tuple[_Block, int]]:
    """Yield every block with its depth; an `elif` is as deep as its `if`."""
    for statement in statements:
        if isinstance(statement, _Block):
            yield statement, depth
            for branch in _branches(statement):
                is_elif = isinstance(statement, ast.If) and branch is statement.orelse and _is_one_if(branch)
                yield from _blocks(branch, depth if is_elif else depth + 1)


def _branches(block: _Block) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(block, name, [])
    for part in (*getattr(block, "handlers", ()), *getattr(block, "cases", ())):
        yield part.body


def _is_one_if(branch: list[ast.stmt]) -> bool:
    return len(branch) == 1 and isinstance(branch[0], ast.If)


def _imports(module: Module) -> Iterator[tuple[ast.stmt, str]]:
    """Yield what is imported by its full name: `random.Random` for `from random import Random`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def _calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    """Yield calls of plain names and of `module.name`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(name):
                    yield node, name
                case ast.Attribute(ast.Name(owner), name):
                    yield node, f"{owner}.{name}"


def _is_broad(caught: ast.expr | None) -> bool:
    errors = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(error is None or (isinstance(error, ast.Name) and error.id in _BROAD_ERRORS) for error in errors)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
