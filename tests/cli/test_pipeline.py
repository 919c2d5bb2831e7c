"""`goqueue pipeline`: through the command; without a broker, Spark or Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Command

GOQUEUE = Command("http://127.0.0.1:1")

WRONG = """\
pipeline: orders
triger: 5s
sources:
  orders: {topic: orders}
  idle: {topic: idle}
sinks:
  out: {from: ordres, console: true}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_sample_of_init_is_valid_and_has_a_plan(here: Path) -> None:
    assert GOQUEUE.done("pipeline", "init", "shop").startswith("wrote shop/pipeline.yaml")
    told = "shop/pipeline.yaml: ok, pipeline orders with 2 sources, 4 steps, 2 sinks\n"
    assert GOQUEUE.done("pipeline", "validate", "--strict", "shop/pipeline.yaml") == told
    assert "●    enriched" in GOQUEUE.done("pipeline", "plan", "shop/pipeline.yaml")


def test_init_overwrites_nothing(here: Path) -> None:
    (here / "pipeline.yaml").write_text("mine")
    told = GOQUEUE.refused("pipeline", "init")
    assert told == (
        "goqueue: pipeline.yaml exists (name another directory, or remove it) [conflict]\n"
    )  # fmt: skip
    assert (here / "pipeline.yaml").read_text() == "mine"


def test_mistakes_are_shown_as_compilers_show_them(here: Path) -> None:
    (here / "wrong.yaml").write_text(WRONG)
    result = GOQUEUE("pipeline", "validate", "wrong.yaml")
    assert result.exit_code == 1
    assert result.stdout == (
        "wrong.yaml:2:1: error: the file has no key 'triger'\n"
        "     2 | triger: 5s\n"
        "       | ^\n"
        "       = hint: did you mean trigger?\n"
        "wrong.yaml:4:3: warning: source orders is not used\n"
        "     4 |   orders: {topic: orders}\n"
        "       |   ^\n"
        "       = hint: read it from a step or a sink, or remove it\n"
        "wrong.yaml:5:3: warning: source idle is not used\n"
        "     5 |   idle: {topic: idle}\n"
        "       |   ^\n"
        "       = hint: read it from a step or a sink, or remove it\n"
        "wrong.yaml:7:15: error: sink out reads ordres, but there is no such source or step\n"
        "     7 |   out: {from: ordres, console: true}\n"
        "       |               ^\n"
        "       = hint: did you mean orders?\n"
        "wrong.yaml: 2 errors, 2 warnings\n"
    )


def test_mistakes_are_rows_for_programs(here: Path) -> None:
    (here / "wrong.yaml").write_text(WRONG)
    first, *_ = GOQUEUE.rows("pipeline", "validate", "wrong.yaml", kind="mistake", exit_code=1)
    assert first == {
        "file": "wrong.yaml",
        "line": 2,
        "column": 1,
        "severity": "error",
        "message": "the file has no key 'triger'",
        "hint": "did you mean trigger?",
    }
    rows = GOQUEUE.rows("pipeline", "validate", "wrong.yaml", kind="pipeline", exit_code=1)
    assert rows == [{"file": "wrong.yaml", "name": None, "is_valid": False, "errors": 2, "warnings": 2}]


def test_warnings_fail_only_if_asked_for(here: Path) -> None:
    (here / "idle.yaml").write_text(WRONG.replace("triger", "trigger").replace("ordres", "orders"))
    told = GOQUEUE.done("pipeline", "validate", "idle.yaml")
    assert told.endswith("idle.yaml: ok, pipeline orders with 2 sources, 0 steps, 1 sink, 1 warning\n")
    assert GOQUEUE("pipeline", "validate", "--strict", "idle.yaml").exit_code == 1


def test_every_file_is_validated(here: Path) -> None:
    (here / "wrong.yaml").write_text(WRONG)
    GOQUEUE.done("pipeline", "init")
    result = GOQUEUE("pipeline", "validate", "wrong.yaml", "pipeline.yaml")
    assert result.exit_code == 1
    assert "wrong.yaml: 2 errors" in result.stdout
    assert "pipeline.yaml: ok" in result.stdout


def test_a_mark_stands_below_its_character_whatever_is_before_it(here: Path) -> None:
    pad = "x" * 300
    (here / "wide.yaml").write_text(f'pipeline: p\ndescription: "字"\nsources: {{"字": {{a: {pad}, topic: a/b}}}}\n')
    lines = GOQUEUE("pipeline", "validate", "wide.yaml").stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if "'a/b' cannot be" in line)
    source, mark = lines[place + 1], lines[place + 2]
    assert source[mark.index("^") :].startswith("a/b")
    place = next(number for number, line in enumerate(lines) if "no key 'a'" in line)
    assert lines[place + 2].index("^") - lines[place + 1].index("a: xxx") == 1  # 字 takes two columns


def test_a_plan_of_a_wrong_file_is_refused_with_its_mistakes(here: Path) -> None:
    (here / "wrong.yaml").write_text(WRONG)
    assert "wrong.yaml:2:1: error:" in GOQUEUE.refused("pipeline", "plan", "wrong.yaml")


def test_plan_is_written_to_a_file_as_mermaid(here: Path) -> None:
    GOQUEUE.done("pipeline", "init")
    result = GOQUEUE("pipeline", "plan", "pipeline.yaml", "--mermaid", "plan.mmd")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "wrote plan.mmd\n")
    assert "flowchart LR" in (here / "plan.mmd").read_text("utf-8")


def test_a_plan_has_rows_for_programs(here: Path) -> None:
    GOQUEUE.done("pipeline", "init")
    parts = GOQUEUE.rows("pipeline", "plan", "pipeline.yaml", kind="part")
    lake = next(part for part in parts if part["name"] == "lake")
    assert lake == {
        "id": "sink:lake",
        "type": "sink",
        "name": "lake",
        "reads": ["enriched"],
        "is_stream": True,
        "words": ["parquet out/orders", "partitioned by country"],
    }
    assert GOQUEUE.done("pipeline", "plan", "pipeline.yaml", "--format", "yaml").startswith('- kind: "pipeline"\n')


@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_a_file_that_is_not_there_is_a_mistake_in_the_call(here: Path, verb: str) -> None:
    assert "does not exist" in GOQUEUE.refused("pipeline", verb, "nothing.yaml", exit_code=2)


def test_missing_yaml_library_is_named_with_its_installation(here: Path) -> None:
    GOQUEUE.done("pipeline", "init")
    code = (
        "import sys; sys.modules['yaml'] = None; sys.argv = ['goqueue', 'pipeline', 'validate', 'pipeline.yaml']; "
        "from goqueue.cli.main import app; app()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=here, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "goqueue: PyYAML is not installed (pip install 'goqueue[spark]') [unavailable]\n"
