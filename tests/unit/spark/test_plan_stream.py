"""What a stream does next, for everything that a broker may show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import Conflict
from goqueue.spark.source.lookup import Bounds, Seen, SeenTopic
from goqueue.spark.source.losses import DataLost, settle
from goqueue.spark.source.plan import Range
from goqueue.spark.source.positions import ForeignCheckpoint, StreamPositions, TopicPosition, read_positions
from goqueue.spark.source.stream_plan import StreamStep, ends_of, known, next_step, readable

A, B = UUID(int=1), UUID(int=2)


def at(offsets: Mapping[int, int], topic_id: UUID = A, name: str = "orders") -> StreamPositions:
    return StreamPositions({name: TopicPosition(topic_id, offsets)})


def shown(bounds: Mapping[int, tuple[int, int]], topic_id: UUID = A, name: str = "orders") -> Seen:
    return {name: SeenTopic(topic_id, {number: Bounds(*each) for number, each in bounds.items()})}


def test_a_stream_goes_to_the_end_of_what_is_there() -> None:
    step = next_step(at({0: 5, 1: 0}), shown({0: (0, 9), 1: (0, 4)}))

    assert step == StreamStep(at({0: 9, 1: 4}), (), 8)
    assert readable(at({0: 5, 1: 0}), step.end, shown({0: (0, 9), 1: (0, 4)})).ranges == (
        Range("orders", A, 0, 5, 9),
        Range("orders", A, 1, 0, 4),
    )


def test_a_limit_is_shared_among_partitions() -> None:
    assert next_step(at({0: 0, 1: 0}), shown({0: (0, 90), 1: (0, 10)}), limit=20).end == at({0: 17, 1: 3})


def test_a_stream_stays_where_it_is_if_there_is_nothing_new() -> None:
    start = at({0: 5})
    assert next_step(start, shown({0: (0, 5)})) == StreamStep(start, (), 0)


def test_a_new_partition_joins_at_its_start_and_is_read_with_the_next_batch() -> None:
    seen = shown({0: (0, 5), 1: (0, 7)})

    joined = next_step(at({0: 3}), seen)

    assert joined == StreamStep(at({0: 5, 1: 0}), (), 2)
    assert readable(at({0: 3}), joined.end, seen).ranges == (Range("orders", A, 0, 3, 5),)
    assert next_step(joined.end, seen).end == at({0: 5, 1: 7})


def test_records_of_a_new_partition_that_were_never_read_are_a_loss() -> None:
    seen = shown({0: (0, 5), 1: (4, 7)})
    joined = next_step(at({0: 5}), seen)

    (loss,) = next_step(joined.end, seen).losses

    assert loss.what.startswith("offsets 0 to 3 of partition 1 of 'orders' were removed")


def test_a_new_topic_joins_at_its_first_record_and_that_is_no_loss() -> None:
    seen = {**shown({0: (0, 5)}), **shown({0: (40, 50)}, B, "returns")}

    step = next_step(at({0: 5}), seen)

    assert step.end.topics["returns"] == TopicPosition(B, {0: 40})
    assert not step.losses


def test_records_removed_before_they_were_read_are_a_loss() -> None:
    step = next_step(at({0: 5}), shown({0: (12, 20)}))

    (loss,) = step.losses
    assert loss.what == (
        "offsets 5 to 11 of partition 0 of 'orders' were removed (by retention or DeleteRecords) before they were "
        "read; the log starts at 12"
    )
    assert step.end == at({0: 20})


def test_a_batch_of_the_checkpoint_whose_records_are_gone_is_a_loss_of_these() -> None:
    part, whole = shown({0: (12, 20)}), shown({0: (18, 20)})

    found = readable(at({0: 5}), at({0: 15}), part)
    assert found.ranges == (Range("orders", A, 0, 12, 15),)
    assert found.losses[0].what.startswith("offsets 5 to 11 of")

    gone = readable(at({0: 5}), at({0: 15}), whole)
    assert gone.ranges == ()
    assert gone.losses[0].what.startswith("offsets 5 to 14 of")


def test_a_log_that_ends_before_the_position_is_a_loss() -> None:
    step = next_step(at({0: 9}), shown({0: (0, 4)}))

    assert "ends at offset 4, before the position 9" in step.losses[0].what
    assert step.end == at({0: 4})


def test_a_deleted_topic_is_a_loss_and_its_position_is_kept() -> None:
    step = next_step(at({0: 9}), {})

    assert step.losses[0].what == "topic 'orders' was deleted, or is not subscribed any more"
    assert step == StreamStep(at({0: 9}), step.losses, 0)
    assert readable(at({0: 5}), at({0: 9}), {}).losses == step.losses


def test_a_topic_that_was_not_seen_for_a_while_is_read_on_where_it_was() -> None:
    seen = shown({0: (0, 100), 1: (0, 50)})
    start = at({0: 100, 1: 40})

    unseen = next_step(start, {})
    assert next_step(unseen.end, seen) == StreamStep(at({0: 100, 1: 50}), (), 10)

    narrow = next_step(start, shown({0: (0, 101)}))
    assert narrow.end == at({0: 101, 1: 40})
    assert next_step(narrow.end, seen).end.topics["orders"].offsets[1] == 50


def test_a_topic_that_was_not_seen_and_is_another_one_then_is_read_from_its_start() -> None:
    unseen = next_step(at({0: 9, 1: 9}), {})

    step = next_step(unseen.end, shown({0: (3, 30)}, B))

    assert step.losses[0].what == "topic 'orders' was deleted and made again since the query read it"
    assert step.end == at({0: 3}, B)


def test_progress_is_that_in_what_is_there() -> None:
    positions = StreamPositions({"orders": TopicPosition(A, {0: 5, 1: 6}), "returns": TopicPosition(B, {0: 7})})

    assert known(positions, shown({0: (0, 9)})) == at({0: 5})
    assert known(positions, shown({0: (0, 9), 1: (0, 9)}, B)) == StreamPositions()


def test_a_topic_made_again_is_a_loss_and_is_read_from_its_start() -> None:
    seen = shown({0: (0, 30)}, B)

    step = next_step(at({0: 9}), seen)

    assert step.losses[0].what == "topic 'orders' was deleted and made again since the query read it"
    assert step.end == at({0: 0}, B)
    assert readable(at({0: 9}), step.end, seen) == ((), ())
    assert next_step(step.end, seen).end == at({0: 30}, B)
    assert readable(at({0: 5}), at({0: 9}), seen).losses == step.losses


def test_a_partition_that_is_not_assigned_any_more_is_a_loss() -> None:
    step = next_step(at({0: 5, 1: 5}), shown({0: (0, 5)}))

    assert step.losses[0].what == "partition 1 of 'orders' is not subscribed any more"
    assert step.end == at({0: 5, 1: 5})


def test_a_partition_that_is_added_to_those_assigned_joins_at_its_first_record() -> None:
    seen = shown({0: (0, 5), 1: (1000, 2000)})

    step = next_step(at({0: 5}), seen, is_assigned=True)

    assert step == StreamStep(at({0: 5, 1: 1000}), (), 0)
    assert next_step(step.end, seen, is_assigned=True) == StreamStep(at({0: 5, 1: 2000}), (), 1000)


def test_all_losses_are_one_error_that_names_the_option_and_what_it_does() -> None:
    step = next_step(at({0: 5, 1: 6}), shown({0: (8, 20), 1: (9, 20)}))

    with pytest.raises(DataLost) as caught:
        settle(step.losses, is_failure=True)

    assert "offsets 5 to 7 of partition 0" in str(caught.value)
    assert "offsets 6 to 8 of partition 1" in str(caught.value)
    assert "failOnDataLoss=false the read goes on at offset 8; goes on at offset 9" in str(caught.value)


def test_a_loss_that_is_accepted_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    step = next_step(at({0: 5}), shown({0: (8, 20)}))
    told: set[str] = set()

    settle(step.losses, is_failure=False, told=told)
    settle(step.losses, is_failure=False, told=told)

    assert len(caplog.records) == 1


def test_a_loss_that_was_over_and_comes_back_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    losses = next_step(at({0: 5}), {}).losses
    told: set[str] = set()

    for each in (losses, (), losses):
        settle(each, is_failure=False, told=told)

    assert len(caplog.records) == 2


bounds = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (min(pair), max(pair)))
worlds = st.dictionaries(st.integers(0, 3), bounds, max_size=4)


@given(worlds, st.dictionaries(st.integers(0, 3), st.integers(0, 60), max_size=4), st.integers(1, 20) | st.none())
def test_steps_without_loss_read_every_record_once_up_to_the_target(
    first: dict[int, tuple[int, int]], offsets: dict[int, int], limit: int | None
) -> None:
    seen = shown(first)
    position = at({number: min(max(offsets.get(number, 0), low), high) for number, (low, high) in first.items()})
    target = ends_of(seen)
    read: dict[int, list[int]] = {number: [] for number in first}
    began = position
    for _ in range(300):
        step = next_step(position, seen, limit=limit, target=target)
        assert not step.losses
        if step.end == position:
            break
        for each in readable(position, step.end, seen).ranges:
            read[each.partition] += range(each.start, each.end)
        position = step.end

    assert position == target
    for number, (_, high) in first.items():
        assert read[number] == list(range(began.topics["orders"].offsets[number], high))


@given(worlds, worlds, st.sampled_from([A, B, None]), st.booleans())
def test_a_stream_with_an_end_gets_there_whatever_happens_meanwhile(
    first: dict[int, tuple[int, int]], then: dict[int, tuple[int, int]], topic_id: UUID | None, is_assigned: bool
) -> None:
    end = ends_of(shown(first))
    began = replace(at({number: low for number, (low, _) in first.items()}), end=end)
    seen = {} if topic_id is None else shown(then, topic_id)
    position, read, losses = began, set[tuple[int, int]](), set[str]()
    for _ in range(100):
        step = next_step(position, seen, limit=7, is_assigned=is_assigned)
        found = readable(position, step.end, seen)
        ranges = [(each.partition, offset) for each in found.ranges for offset in range(each.start, each.end)]
        assert read.isdisjoint(ranges)
        read.update(ranges)
        # What a batch finds when it is planned, the look ahead has found before, and told in the same words.
        assert {loss.what for loss in found.losses} <= {loss.what for loss in step.losses}
        losses |= {loss.what for loss in step.losses}
        if step.end == position:
            break
        position = read_positions(step.end.to_json())

    assert all(
        position.topics["orders"].offsets[number] >= last for number, last in end.topics["orders"].offsets.items()
    )
    wanted = {(number, offset) for number, (low, high) in first.items() for offset in range(low, high)}
    there = {(number, offset) for number, (low, high) in then.items() for offset in range(low, high)}
    assert read == (wanted & there if topic_id == A else set())
    assert bool(losses) == (read != wanted)


def test_a_log_that_ends_before_the_end_of_a_stream_is_a_loss_and_the_stream_is_through_with_it() -> None:
    start, seen = replace(at({0: 40, 1: 0}), end=at({0: 90, 1: 4})), shown({0: (0, 50), 1: (0, 4)})

    step = next_step(start, seen, limit=7)
    assert [loss.what.partition(":")[0] for loss in step.losses] == [
        "partition 0 of 'orders' ends at offset 50, before offset 90, where the query is to end"
    ]
    assert step.end.topics["orders"].offsets[0] < 50

    step = next_step(start, seen)
    assert step.end == replace(at({0: 90, 1: 4}), end=start.end)
    found = readable(start, step.end, seen)
    assert found.ranges == (Range("orders", A, 0, 40, 50), Range("orders", A, 1, 0, 4))
    assert found.losses == step.losses
    assert next_step(step.end, seen) == StreamStep(step.end, (), 0)


@pytest.mark.parametrize("then", [{}, shown({0: (0, 60)}, B)])
def test_a_stream_with_an_end_is_through_with_a_topic_that_is_gone(then: Seen) -> None:
    start = replace(at({0: 5, 1: 9}), end=at({0: 8, 1: 4}))

    step = next_step(start, then)

    assert step.end == replace(at({0: 8, 1: 9}), end=start.end)
    assert [loss.consequence for loss in step.losses] == ["goes on without it"]
    assert readable(start, step.end, then) == ((), step.losses)


def test_a_stream_with_an_end_reads_no_further_whatever_a_run_aims_at() -> None:
    start, seen = replace(at({0: 5, 1: 0}), end=at({0: 8, 1: 4})), shown({0: (0, 90), 1: (0, 90)})

    step = next_step(start, seen, target=ends_of(seen))

    assert step == StreamStep(replace(at({0: 8, 1: 4}), end=start.end), (), 7)
    assert next_step(step.end, seen) == StreamStep(step.end, (), 0)


@pytest.mark.parametrize("then", [{}, shown({0: (50, 60)}), shown({0: (0, 3)}), shown({0: (0, 9)}, B)])
def test_a_stream_that_has_reached_its_end_loses_nothing_any_more(then: Seen) -> None:
    done = replace(at({0: 8, 1: 4}), end=at({0: 8, 1: 4}))

    assert next_step(done, then) == StreamStep(done, (), 0)


def test_of_a_stream_with_an_end_only_what_lies_before_it_can_be_lost() -> None:
    start = replace(at({0: 5, 1: 4, 2: 1, 3: 9}), end=at({0: 8, 1: 4, 2: 3, 3: 9}))

    step = next_step(start, shown({0: (20, 30), 1: (20, 30)}))

    assert [loss.what.partition(" were ")[0] for loss in step.losses] == [
        "offsets 5 to 7 of partition 0 of 'orders'",
        "partition 2 of 'orders' is not subscribed any more",
    ]
    assert step.end.topics["orders"].offsets == {0: 8, 1: 4, 2: 3, 3: 9}
    assert step.backlog == 0


@given(worlds, worlds, st.integers(1, 20) | st.none())
def test_a_stream_with_an_end_reads_all_before_it_once_while_more_is_written(
    first: dict[int, tuple[int, int]], grown: dict[int, tuple[int, int]], limit: int | None
) -> None:
    began = at({number: low for number, (low, _) in first.items()})
    position = replace(began, end=ends_of(shown(first)))
    more = {number: (low, high + grown.get(number, (0, 0))[1]) for number, (low, high) in first.items()}
    seen = shown({**grown, **more})
    read: dict[int, list[int]] = {number: [] for number in (*first, *grown)}
    for _ in range(300):
        step = next_step(position, seen, limit=limit)
        assert not step.losses
        for each in readable(position, step.end, seen).ranges:
            read[each.partition] += range(each.start, each.end)
        if step.end == position:
            break
        position = read_positions(step.end.to_json())

    assert next_step(position, seen).end == position
    assert read == {number: list(range(*first.get(number, (0, 0)))) for number in read}


def test_positions_read_back_from_the_checkpoint_as_the_same_text() -> None:
    position = StreamPositions({"b": TopicPosition(B, {10: 1, 2: 7}), "a": TopicPosition(A, {0: 2**62})})
    text = json.dumps(position.to_json())

    assert "end" not in position.to_json()
    for each in (position, replace(position, end=position)):
        assert read_positions(json.loads(json.dumps(each.to_json()))) == each
    assert json.dumps(read_positions(json.loads(text)).to_json()) == text
    assert text.index('"a"') < text.index('"b"')
    assert text.index('"2"') < text.index('"10"')


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"orders": {"0": 5}}, "belongs to a query over another source"),
        (17, "belongs to a query over another source"),
        ({"source": "goqueue", "version": 2, "topics": {}}, "is of version 2, and this release knows 1"),
        ({"source": "goqueue", "version": 1, "topics": {"a": 5}}, "cannot be read"),
        ({"source": "goqueue", "version": 1, "topics": {"a": {"id": "x", "offsets": {}}}}, "cannot be read"),
    ],
)
def test_a_checkpoint_of_somebody_else_is_recognised(document: object, text: str) -> None:
    with pytest.raises(ForeignCheckpoint, match=text) as caught:
        read_positions(document)
    assert isinstance(caught.value, Conflict)
