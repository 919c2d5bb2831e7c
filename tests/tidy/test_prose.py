"""The rules about words bite on the smallest breach, and the repository has no more of them than `debt.txt` allows."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tests.tidy.prose import findings_in, found_in_repository, read_debt, settled

MARKDOWN, SOURCE, TEST = PurePosixPath("docs/a.md"), PurePosixPath("src/a.py"), PurePosixPath("tests/test_a.py")


def lines(path: PurePosixPath, text: str) -> list[int]:
    return [finding.line for finding in findings_in(path, text)]


def test_no_file_has_more_to_reword_than_its_debt() -> None:
    debt = read_debt()
    worse = [
        "\n".join(f"{path}:{finding.line}: {finding.rule}" for finding in findings)
        for path, findings in found_in_repository().items()
        if len(findings) > debt.get(path, 0)
    ]
    if worse:
        hint = "Reword these (`python -m tests.tidy.prose FILE`); after a move of files, run it with `--settle`."
        pytest.fail("\n".join([*worse, hint]), pytrace=False)


@pytest.mark.parametrize(
    "sentence",
    [
        "Nobody waits.",
        "The topic is made anew.",
        "They read on behind it.",
        "Those behind the cursor stay.",
        "Some wait, those behind.",
        "A member is told to wait.",
        "Say that messages are done.",
        "Have messages of a topic done.",
        "Who waits hears of it.",
        "It ends. What is gone stays so.",
        "One of which the cause is unknown waits.",
        "One (a. Whoever\nreads) waits.",
    ],
)
def test_roundabout_sentence_is_found_wherever_it_stands(sentence: str) -> None:
    assert lines(MARKDOWN, f"# Title\n\n{sentence}\n")
    assert lines(MARKDOWN, f"- item\n- {sentence}\n")
    assert lines(MARKDOWN, f"| a | b |\n|---|---|\n| c | {sentence} |\n")
    assert lines(SOURCE, f'def f():\n    """{sentence}"""\n')
    assert lines(SOURCE, f'fail(f"""{sentence} {{name}}""")')
    assert lines(SOURCE, "# " + sentence.replace("\n", "\n# "))


@pytest.mark.parametrize(
    "sentence",
    [
        "The group falls behind.",
        "It is 3 s behind.",
        "This leaves nothing behind.",
        "It runs behind a reverse proxy.",
        "Time stays behind the seams.",
        "What does it cost?",
        "The two can be told apart.",
        "The reply says what is missing.",
        "Messages that have not been done return.",
        "The broker has confirmed that they are done.",
        "It says that `nobody whoever` may.",
    ],
)
def test_plain_sentence_passes(sentence: str) -> None:
    assert lines(MARKDOWN, f"{sentence}\n") == []


def test_heading_may_be_a_clause() -> None:
    assert lines(MARKDOWN, "## What a letter says\n\nIts cause.\n") == []


def test_code_in_markdown_is_not_read() -> None:
    assert lines(MARKDOWN, "```text\nnobody\n```\n") == []


def test_name_of_a_test_is_a_sentence() -> None:
    assert lines(TEST, "x = 1\ndef test_who_waits_hears(): ...\n") == [2]
    assert lines(TEST, "def test_waiter_wakes(): ...\n") == []


def test_finding_is_on_the_line_of_its_words() -> None:
    assert lines(MARKDOWN, "# A\n\n```sh\nls\n```\n\nOne\ntwo somebody\n\n- three\n- nobody\n") == [8, 11]
    assert lines(SOURCE, '"""A.\n\nSome\nwords for somebody.\n"""\n') == [4]
    assert lines(SOURCE, "x = 1  # One\n\n# Two\n# somebody\n") == [4]


def test_count_moves_with_its_file() -> None:
    assert settled({"a": 2, "b": 3}, {"c": 2, "b": 1}, ["b", "c"]) == {"b": 3, "c": 2}


def test_count_may_not_grow() -> None:
    with pytest.raises(ValueError, match="more to reword"):
        settled({"a": 2}, {"a": 3}, ["a"])
