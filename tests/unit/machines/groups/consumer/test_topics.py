"""What a group reads: topics that come, grow and go, patterns, other subscriptions, and who assigns; as transcripts."""

from __future__ import annotations

from goqueue.machines.groups.consumer.values import FormerPartition, MemberState
from tests.unit.machines.groups.consumer.consumer_kit import Coordinator, partitions


def test_topics_that_are_made_grow_or_go_are_rebalanced() -> None:
    broker = Coordinator({"orders": 1, "other": 5})
    broker.join("a", "orders audit")
    broker.change_topics(orders=4)
    assert broker.beat("a").assignment == partitions("orders-0 orders-1 orders-2 orders-3")
    broker.change_topics(audit=1)
    broker.change_topics(audit=2)
    assert broker.has("a") == "orders-0 orders-1 orders-2 orders-3"
    broker.settle()
    broker.change_topics(orders=0)
    assert broker.beat("a").assignment == partitions("audit-0 audit-1")
    assert broker.member("a").state is MemberState.UNREVOKED
    assert broker.beat("a", "audit-0 audit-1").epoch == broker.known.epoch
    assert broker.reasons == [
        "member a joined",
        "topic orders got 3 more partitions",
        "topic audit was created",
        "topic audit got 1 more partition",
        "topic orders was deleted",
    ]


def test_a_topic_that_is_made_anew_is_given_back_before_it_is_given() -> None:
    broker = Coordinator({"orders": 2, "audit": 1})
    broker.join("a", "orders audit")
    former = broker.ids["orders"]
    broker.make_anew(orders=2)
    assert broker.reasons[-1] == "topic orders was re-created"
    assert broker.beat("a").assignment == partitions("audit-0")
    # It says which topic it means by an id that nobody else knows any more.
    still = frozenset({FormerPartition(former, 0), FormerPartition(former, 1)})
    told = broker.beat("a", "audit-0", owned_former=still)
    assert (told.epoch, told.assignment) == (1, partitions("audit-0"))
    told = broker.beat("a", "audit-0")
    assert (told.epoch, told.assignment) == (2, partitions("audit-0 orders-0 orders-1"))
    assert broker.beat("a").assignment is None


def test_nobody_gets_a_topic_that_was_made_anew_from_who_has_the_former_one() -> None:
    broker = Coordinator({"orders": 2})
    broker.join("a")
    former = broker.ids["orders"]
    broker.make_anew(orders=2)
    broker.join("b")
    still = frozenset({FormerPartition(former, 0), FormerPartition(former, 1)})
    for owned in (still, still, frozenset(sorted(still)[:1])):
        broker.beat("a", "", owned_former=owned)
        broker.beat("b")
    assert (broker.has("a"), broker.has("b")) == ("", "orders-1")
    broker.restart()
    broker.refresh()
    broker.beat("a", "", owned_former=frozenset(sorted(still)[:1]))
    assert broker.has("a") == ""
    broker.make_anew(orders=2)
    broker.beat("a", "", owned_former=frozenset(sorted(still)[:1]))
    assert broker.has("a") == "", "the first topic is gone twice, and given back by nobody"
    broker.settle()
    assert (broker.has("a"), broker.has("b")) == ("orders-0", "orders-1")


def test_a_topic_that_is_deleted_and_made_later_is_given_back_under_its_former_id() -> None:
    broker = Coordinator({"orders": 1})
    broker.join("a")
    still = frozenset({FormerPartition(broker.ids["orders"], 0)})
    broker.change_topics(orders=0)
    assert broker.beat("a").assignment == frozenset()
    broker.change_topics(orders=1)
    assert broker.beat("a", "", owned_former=still).epoch == 1
    assert broker.beat("a", "").assignment == partitions("orders-0")


def test_a_topic_that_was_made_anew_while_nobody_looked_is_noticed_after_a_start() -> None:
    broker = Coordinator({"orders": 1})
    broker.join("a")
    broker.ids.clear()
    broker.restart()
    broker.refresh()
    assert broker.reasons[-1] == "topic orders was re-created"
    assert broker.beat("a").assignment == frozenset()


def test_what_a_member_that_is_away_had_of_a_topic_that_is_gone_goes_at_once() -> None:
    broker = Coordinator({"orders": 2})
    broker.join("a", instance_id="one")
    broker.beat("a", epoch=-2, instance_id="one")
    broker.make_anew(orders=2)
    assert broker.has("a") == ""
    assert broker.join("a2", instance_id="one").assignment == partitions("orders-0 orders-1")


def test_a_topic_that_nobody_reads_any_more_and_that_is_made_anew_is_not_mixed_up() -> None:
    broker = Coordinator({"orders": 1, "audit": 1})
    broker.join("a")
    former = broker.ids["orders"]
    broker.beat("a", topics=frozenset({"audit"}))
    before = broker.known.epoch
    broker.make_anew(orders=1)
    assert broker.known.epoch == before
    broker.beat("a", "", topics=frozenset({"orders"}), owned_former=frozenset({FormerPartition(former, 0)}))
    assert broker.has("a") == ""
    broker.settle()
    assert broker.has("a") == "orders-0"


def test_a_member_that_keeps_what_is_gone_for_too_long_is_removed() -> None:
    broker = Coordinator()
    broker.join("a", rebalance_timeout_ms=10_000)
    broker.make_anew(orders=3)
    broker.wait(20_000)
    broker.beat("a")
    broker.wait(9_999)
    assert set(broker.known.members) == {"a"}, "its time begins when it is told"
    broker.restart()
    broker.wait(20_000)
    broker.beat("a")
    broker.wait(10_000)
    assert broker.known.members == {}


def test_topics_that_nobody_reads_do_not_matter() -> None:
    broker = Coordinator({"orders": 1, "other": 5})
    broker.join("a")
    before = broker.known
    broker.change_topics(other=9, third=1)
    assert broker.known is before


def test_a_pattern_subscribes_to_what_it_matches_now_and_later() -> None:
    broker = Coordinator({"orders-eu": 1, "__orders": 1, "my-orders": 1})
    broker.join("a", topics=None, pattern="orders.*|__.*")
    assert broker.has("a") == "orders-eu-0"
    broker.change_topics(**{"orders-us": 1, "mine": 1})
    broker.settle()
    assert broker.has("a") == "orders-eu-0 orders-us-0"
    broker.beat("a", pattern="")
    assert broker.reasons[-1] == "member a subscribes to other topics"
    broker.settle()
    assert broker.has("a") == ""


def test_names_and_a_pattern_add_up() -> None:
    broker = Coordinator({"orders": 1, "audit": 1, "x": 1})
    broker.join("a", "orders", pattern="au.*")
    assert broker.has("a") == "audit-0 orders-0"


def test_a_member_that_subscribes_to_other_topics_gives_back_and_gets() -> None:
    broker = Coordinator({"orders": 2, "audit": 2})
    broker.join("a")
    reply = broker.beat("a", topics=frozenset({"audit"}))
    assert (reply.epoch, reply.assignment) == (1, frozenset())
    assert broker.beat("a", "").assignment == partitions("audit-0 audit-1")
    assert broker.reasons[-1] == "member a subscribes to other topics"


def test_members_get_partitions_only_of_their_topics() -> None:
    broker = Coordinator({"orders": 2, "audit": 2})
    broker.join("a", "orders")
    broker.join("b", "audit")
    assert (broker.has("a"), broker.has("b")) == ("orders-0 orders-1", "audit-0 audit-1")


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    broker = Coordinator({"orders": 2, "audit": 2})
    broker.join("a", "orders audit")
    assert broker.known.assignor == "sticky"
    broker.join("b", "orders audit", assignor="range")
    assert broker.known.assignor == "range"
    broker.settle()
    assert broker.has("a") == "audit-0 orders-0"
    broker.join("c", "orders audit", assignor="uniform")
    assert broker.known.assignor == "range"
    broker.beat("a", assignor="uniform")
    assert broker.known.assignor == "sticky"
    assert broker.reasons[-1] == "member a asks for uniform, and so partitions are assigned by sticky"
