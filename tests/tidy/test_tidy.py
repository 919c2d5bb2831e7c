"""The whole repository follows `rules`; the few exceptions are listed here, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import PurePosixPath

import pytest

from tests.tidy import rules
from tests.tidy.rules import Finding, Module, Rule
from tests.tidy.tree import ROOT, texts

# The rooms that are made of time, chance, files and output.
OUTSIDE_ROOMS = {"seams", "cli", "testing"}

RULES_OF_SOURCE: list[Rule] = [
    rules.starts_with_a_docstring,
    rules.is_short,
    rules.has_short_functions,
    rules.has_flat_functions,
    rules.catches_what_it_names,
    rules.has_telling_names,
    rules.documents_what_is_public,
]
RULES_OF_TESTS: list[Rule] = [
    rules.starts_with_a_docstring,
    rules.has_telling_names,
    rules.sleeps_in_virtual_time_only,
]
EXCEPTIONS: dict[tuple[Rule, str], str] = {
    (rules.catches_what_it_names, "src/goqueue/testing/loop.py"): "an executor hands every error to its caller",
    (rules.catches_what_it_names, "src/goqueue/client/worker_crew.py"): "the edge of a user's function",
    (rules.catches_what_it_names, "src/goqueue/client/consumer.py"): "the edges of a thread and of a task",
    (rules.catches_what_it_names, "src/goqueue/client/worker_sink.py"): "the edge of a user's object",
    (rules.catches_what_it_names, "src/goqueue/client/worker_threads.py"): "the edge of a thread and a user's function",
    (rules.catches_what_it_names, "src/goqueue/protocols/http/wire/endpoint.py"): "the edge of a request",
    (rules.catches_what_it_names, "src/goqueue/protocols/kafka/wire/connection.py"): "the edges of connection and task",
    (rules.catches_what_it_names, "src/goqueue/spark/pipelines/spec/load.py"): "the edge of a user's module",
    (
        rules.catches_what_it_names,
        "src/goqueue/spark/pipelines/run/query.py",
    ): "the edge of a query and user's functions",
    (rules.catches_what_it_names, "src/goqueue/spark/pipelines/run/table.py"): "the edge of a thread",
    (rules.catches_what_it_names, "src/goqueue/runtime/shard.py"): "what is due in one group must not touch the others",
    (rules.catches_what_it_names, "src/goqueue/runtime/waiters.py"): "the edge between those who wait",
    (rules.catches_what_it_names, "src/goqueue/testing/broker.py"): "the edge of a thread",
    (rules.catches_what_it_names, "src/goqueue/testing/stream.py"): "the edge of a connection, as in asyncio",
}


@pytest.mark.parametrize("rule", RULES_OF_SOURCE, ids=lambda rule: rule.__name__)
def test_every_module_of_the_source(rule: Rule) -> None:
    report(breaches(rule, [*modules("src"), *modules("bench")]))


@pytest.mark.parametrize("rule", RULES_OF_TESTS, ids=lambda rule: rule.__name__)
def test_every_module_of_the_tests(rule: Rule) -> None:
    written = [module for module in modules("tests") if module.text]
    report(breaches(rule, written))


def test_time_chance_files_and_output_stay_behind_the_seams() -> None:
    core = [module for module in modules("src") if OUTSIDE_ROOMS.isdisjoint(module.path.parts)]
    report(breaches(rules.stays_behind_the_seams, core))


def test_every_exception_is_still_needed() -> None:
    sources = {str(module.path): module for module in modules("src")}
    unneeded = [path for rule, path in EXCEPTIONS if path not in sources or not any(rule(sources[path]))]
    assert not unneeded


def test_every_text_is_fit_to_publish() -> None:
    report(describe(path, finding) for path, text in texts().items() for finding in rules.is_fit_to_publish(text))


def test_every_link_between_documents_leads_somewhere() -> None:
    report(
        describe(path, finding)
        for path, text in texts().items()
        if path.suffix == ".md"
        for finding in rules.has_working_links(ROOT / path, text)
    )


def breaches(rule: Rule, among: Iterable[Module]) -> Iterator[str]:
    for module in among:
        if (rule, str(module.path)) not in EXCEPTIONS:
            yield from (describe(module.path, finding) for finding in rule(module))


def describe(path: PurePosixPath, finding: Finding) -> str:
    return f"{path}:{finding.line}: {finding.rule}"


def report(found: Iterable[str]) -> None:
    lines = list(found)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


@cache
def modules(folder: str) -> list[Module]:
    return [Module(path, text) for path, text in texts().items() if path.suffix == ".py" and path.parts[0] == folder]
