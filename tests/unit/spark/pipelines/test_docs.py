"""The file that docs/pipelines.md shows is a good one, and the document knows every key."""

from __future__ import annotations

import re
from pathlib import Path

from goqueue.spark.pipelines.spec.model import Action, FileFormat, JoinKind, MessageColumn, Mode, OnBadValue
from tests.unit.spark.pipelines.pipelines_kit import spec_of

DOCUMENT = (Path(__file__).parents[4] / "docs" / "pipelines.md").read_text("utf-8")


def test_the_complete_file_has_no_mistakes() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    spec = spec_of(text)
    assert [step.name for step in spec.steps] == ["checked", "located", "refunded", "revenue"]
    assert len(spec.sinks) == 4


def test_every_choice_is_documented() -> None:
    for choices in (Action, FileFormat, JoinKind, MessageColumn, Mode, OnBadValue):
        for choice in choices:
            assert f"`{choice.value}`" in DOCUMENT
