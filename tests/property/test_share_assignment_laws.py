"""Where members of share groups look, whatever they subscribe to: everywhere, evenly, and the same each time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from goqueue.machines.groups.share.members import assign_shares
from goqueue.model.topic import TopicPartition

NAMES = st.sampled_from("tuvw")
TOPICS = st.dictionaries(NAMES, st.integers(1, 9))
SUBSCRIPTIONS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.frozensets(NAMES), max_size=12)


@given(SUBSCRIPTIONS, TOPICS)
def test_every_partition_has_a_member_that_subscribes_to_it(
    subscriptions: dict[str, frozenset[str]], topics: dict[str, int]
) -> None:
    dealt = assign_shares(subscriptions, topics)
    assert dealt.keys() == subscriptions.keys()
    for member, partitions in dealt.items():
        assert {each.topic for each in partitions} <= subscriptions[member]
    looked_at = {each for partitions in dealt.values() for each in partitions}
    wanted = frozenset[str]().union(*subscriptions.values()) & topics.keys()
    assert looked_at == {TopicPartition(topic, index) for topic in wanted for index in range(topics[topic])}


@given(st.integers(1, 20), st.integers(1, 20))
def test_a_topic_is_shared_evenly(members: int, partitions: int) -> None:
    subscriptions = {f"m{number}": frozenset({"t"}) for number in range(members)}
    dealt = assign_shares(subscriptions, {"t": partitions})
    sizes = [len(each) for each in dealt.values()]
    crowds = Counter(each for shares in dealt.values() for each in shares).values()
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert max(crowds) - min(crowds) <= 1


@given(SUBSCRIPTIONS, TOPICS)
def test_the_order_of_arguments_does_not_matter(
    subscriptions: dict[str, frozenset[str]], topics: dict[str, int]
) -> None:
    backwards = dict(reversed(subscriptions.items()))
    assert assign_shares(subscriptions, topics) == assign_shares(backwards, dict(reversed(topics.items())))
