"""History of transactions, and checks of it. Knows nothing of the injected faults."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class History:
    """Inputs, committed outputs `INPUT/ATTEMPT`, and acknowledged ends of transactions.

    `offsets` has the offsets of the group at each poll of the observer, in order. `stable` and `ends` are, by
    partition, the last stable offset and the end of the log.
    """

    inputs: set[str] = field(default_factory=set)
    seen: list[str] = field(default_factory=list)
    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    offsets: list[Mapping[int, int]] = field(default_factory=list)
    stable: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    def read(self, paths: Iterable[Path]) -> None:
        """Take what workers wrote down; a line that a kill has cut is none."""
        for path in paths:
            for line in path.read_text("utf-8").splitlines(keepends=True):
                if line.endswith("\n"):
                    event = json.loads(line)
                    (self.committed if event["event"] == "committed" else self.aborted).update(event["values"])


def check(history: History) -> None:
    """Raise AssertionError unless each input was handled once, whatever happened in between."""
    times = Counter(value.partition("/")[0] for value in history.seen)
    assert [each for each in times if times[each] > 1] == [], "inputs were handled more than once"
    assert sorted(history.inputs - times.keys()) == [], "inputs were not handled"
    assert sorted(times.keys() - history.inputs) == [], "there are outputs of nothing"
    seen = set(history.seen)
    assert sorted(seen & history.aborted) == [], "readers see what was aborted"
    assert sorted(history.committed - seen) == [], "what was committed is lost"
    for before, after in zip(history.offsets, history.offsets[1:], strict=False):
        back = {each: (offset, after.get(each)) for each, offset in before.items() if after.get(each, -1) < offset}
        assert back == {}, "offsets of the group went back"
    assert history.stable == history.ends, "readers are stuck"
