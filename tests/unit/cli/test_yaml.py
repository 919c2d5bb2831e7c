"""Rows that the command line prints as YAML mean the same to a reader of YAML."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.terminal.output import yaml_entry

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3), max_leaves=10
)


def test_nested_values_are_blocks() -> None:
    row: dict[str, Any] = {
        "kind": "queue",
        "consumers": {},
        "settings": {"retries": 3, "start": "earliest", "on": True},
        "partitions": [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}],
        "names": ["a", []],
    }
    assert yaml_entry(row) == (
        '- kind: "queue"\n'
        "  consumers: {}\n"
        "  settings:\n"
        "    retries: 3\n"
        '    start: "earliest"\n'
        '    "on": true\n'
        "  partitions:\n"
        '    - topic: "orders"\n'
        "      partition: 0\n"
        '    - topic: "orders"\n'
        "      partition: 1\n"
        "  names:\n"
        '    - "a"\n'
        "    - []\n"
    )


@given(st.lists(st.dictionaries(st.text(), values, min_size=1, max_size=4), min_size=1, max_size=3))
def test_yaml_parser_reads_back_the_same_values(rows: list[dict[str, Any]]) -> None:
    assert yaml.safe_load("".join(yaml_entry(row) for row in rows)) == rows
