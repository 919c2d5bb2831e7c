"""History that members of a group recorded, and checks of it. Knows nothing of the injected faults."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Owned(NamedTuple):
    """A member had a partition; it knew so itself until the end, or could do nothing about it any more."""

    member: str
    partition: int
    start: float
    end: float


class Commit(NamedTuple):
    """An offset was acknowledged."""

    member: str
    partition: int
    offset: int
    began: float
    ended: float


@dataclass
class History:
    """The events of all members; `silenced` says when a member was stopped or killed."""

    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    silenced: dict[str, list[float]] = field(default_factory=dict)

    def read(self, member: str, path: Path) -> None:
        """Take the events of a member; a line that a kill has cut is none."""
        lines = path.read_text("utf-8").splitlines(keepends=True)
        self.events[member] = [json.loads(line) for line in lines if line.endswith("\n")]

    def commits(self) -> list[Commit]:
        """Return all acknowledged offsets in the order in which their acknowledgements came."""
        found = [
            Commit(member, int(partition), offset, event["began"], event["at"])
            for member, events in self.events.items()
            for event in events
            if event["event"] == "committed"
            for partition, offset in event["offsets"].items()
        ]
        return sorted(found, key=lambda commit: commit.ended)

    def read_offsets(self) -> dict[int, set[int]]:
        """Return the offsets of each partition that any member has read."""
        found: dict[int, set[int]] = {}
        for events in self.events.values():
            for event in events:
                if event["event"] == "read":
                    found.setdefault(event["partition"], set()).update(event["offsets"])
        return found

    def ownership(self) -> list[Owned]:
        """Return who had what and when."""
        found = []
        for member, events in self.events.items():
            since: dict[int, float] = {}
            for event in events:
                if event["event"] == "assigned":
                    since.update(dict.fromkeys(event["partitions"], event["at"]))
                elif event["event"] == "revoked":
                    at = event["at"]
                    found += [self._owned(member, each, since.pop(each, at), at) for each in event["partitions"]]
            found += [self._owned(member, partition, start, float("inf")) for partition, start in since.items()]
        return found

    def _owned(self, member: str, partition: int, start: float, end: float) -> Owned:
        stops = [moment for moment in self.silenced.get(member, ()) if moment >= start]
        return Owned(member, partition, start, min([end, *stops]))


def check(history: History) -> None:
    """Raise AssertionError unless partitions had one owner at a time, and commits went forward by their owners."""
    owned = history.ownership()
    for number, one in enumerate(owned):
        for other in owned[number + 1 :]:
            is_same = one.partition == other.partition and one.member != other.member
            assert not (is_same and one.start < other.end and other.start < one.end), (one, other)
    commits = history.commits()
    for number, commit in enumerate(commits):
        _check_owner(commit, owned)
        later = [each for each in commits[number + 1 :] if each.partition == commit.partition]
        assert all(each.offset >= commit.offset for each in later if each.began > commit.ended), (commit, later)


def _check_owner(commit: Commit, owned: Sequence[Owned]) -> None:
    """Check that no other member had the partition when an acknowledged commit began."""
    mine = [each.start for each in owned if each[:2] == commit[:2] and each.start <= commit.ended]
    assert mine, f"{commit} is of a partition that the member never had"
    others = [each for each in owned if each.partition == commit.partition and each.member != commit.member]
    assert not any(max(mine) < each.start < commit.began for each in others), (commit, others)
