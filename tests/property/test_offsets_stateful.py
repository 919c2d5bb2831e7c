"""The table of offsets against a model of dicts: the same offsets, also after any restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset, OffsetTable
from goqueue.model.topic import TopicPartition
from tests.unit.machines.compaction import COMPACTIONS, compactions

GROUPS = st.sampled_from(["g", "h", "gh", ""])
PRODUCERS = st.sampled_from([-1, 0, 1, 2**62])
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "ab", "ü"]), st.integers(0, 2))
VALUES = st.builds(
    CommittedOffset, st.integers(-1, 2**63 - 1), st.integers(-1, 3), st.text(max_size=3), st.integers(0, 2**50)
)
NEW = st.lists(st.builds(NewOffset, PARTITIONS, VALUES), max_size=4)


class OffsetsMachine(RuleBasedStateMachine):
    """Commits, pends, ends and forgets; keeps all records that were stored."""

    def __init__(self) -> None:
        super().__init__()
        self.table = OffsetTable()
        self.stored: list[KeyedRecord] = []
        self.offsets: dict[tuple[str, TopicPartition], CommittedOffset] = {}
        self.pending: dict[tuple[int, str, TopicPartition], CommittedOffset] = {}

    def store(self, records: Iterable[KeyedRecord]) -> None:
        """Store and apply."""
        for record in records:
            self.stored.append(record)
            self.table.apply(record)

    @rule(group=GROUPS, offsets=NEW)
    def commit(self, group: str, offsets: list[NewOffset]) -> None:
        self.store(self.table.commit(group, offsets))
        self.offsets.update({(group, each.partition): each.value for each in offsets})

    @rule(group=GROUPS, producer=PRODUCERS, offsets=NEW)
    def pend(self, group: str, producer: int, offsets: list[NewOffset]) -> None:
        self.store(self.table.commit_pending(group, producer, offsets))
        self.pending.update({(producer, group, each.partition): each.value for each in offsets})

    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end(self, producer: int, is_commit: bool) -> None:
        self.store(self.table.end_pending(producer, is_commit=is_commit))
        ended = {key: value for key, value in self.pending.items() if key[0] == producer}
        for (_, group, partition), value in ended.items():
            if is_commit:
                self.offsets[group, partition] = value
        self.pending = {key: value for key, value in self.pending.items() if key not in ended}

    @rule(group=GROUPS, partitions=st.none() | st.lists(PARTITIONS, max_size=4))
    def forget(self, group: str, partitions: list[TopicPartition] | None) -> None:
        self.store(self.table.forget(group, partitions))
        self.drop(lambda name, partition: name == group and (partitions is None or partition in partitions))

    @rule(topic=st.sampled_from(["a", "ab", "ü", "never"]))
    def forget_topic(self, topic: str) -> None:
        self.store(self.table.forget_topic(topic))
        self.drop(lambda _, partition: partition.topic == topic)

    def drop(self, is_gone: Callable[[str, TopicPartition], bool]) -> None:
        self.offsets = {key: value for key, value in self.offsets.items() if not is_gone(*key)}
        self.pending = {key: value for key, value in self.pending.items() if not is_gone(*key[1:])}

    @rule(left=st.integers(0, COMPACTIONS - 1))
    def restart(self, left: int) -> None:
        """Fold what was stored, all of it or what compaction leaves."""
        self.table = OffsetTable()
        for record in compactions(self.stored)[left]:
            self.table.apply(record)

    @invariant()
    def agrees(self) -> None:
        """Compare what is known."""
        names = {group for group, _ in self.offsets}
        assert set(self.table.groups()) == names | {group for _, group, _ in self.pending}
        for name in ("g", "h", "gh", ""):
            found = {(name, partition): value for partition, value in self.table.of_group(name).items()}
            assert found == {key: value for key, value in self.offsets.items() if key[0] == name}
            assert self.table.has(name) == (name in names)
        for topic in ("a", "ab", "ü"):
            partition = TopicPartition(topic, 1)
            assert self.table.find("g", partition) == self.offsets.get(("g", partition))
            assert self.table.is_pending("g", partition) == any(
                (group, each) == ("g", partition) for _, group, each in self.pending
            )

    @invariant()
    def can_be_made_again_from_its_records(self) -> None:
        """A new table that is given the records of this one equals it."""
        again = OffsetTable()
        for record in self.table.records():
            again.apply(record)
        assert sorted(again.records()) == sorted(self.table.records())


TestOffsets = OffsetsMachine.TestCase
TestOffsets.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
