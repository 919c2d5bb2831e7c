"""Admission: every operation is declared, admitted, measured, and counted by its outcome."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path, PurePath
from typing import get_args

import pytest

import goqueue.protocols
from goqueue.broker.admission import BUCKETS_S, OPERATIONS, Admission, Caller, OperationKey, Resource
from goqueue.broker.broker import Broker
from goqueue.broker.groups.membership import join_group
from goqueue.broker.messages.fetch import FETCH
from goqueue.broker.topics.admin import create_topic, delete_topic, describe_topic
from goqueue.broker.transactions.producers import new_producer
from goqueue.errors import DiskFull, Draining, TopicExists, UnknownTopic
from goqueue.model.broker_options import BrokerOptions
from goqueue.testing import ManualClock, RecordingSink, SimDisk, Simulation, simulate

ME = Caller("test", "here:1")
PROTOCOLS = Path(goqueue.protocols.__file__).parent


def open_broker(simulation: Simulation) -> Broker:
    """Return a broker that was not started."""
    return Broker(
        SimDisk(7),
        PurePath("data"),
        BrokerOptions(),
        clock=simulation.clock,
        entropy=simulation.entropy,
        sink=RecordingSink(),
    )


def imported_by_protocols() -> Iterator[tuple[str, object]]:
    """Yield what modules of protocols import from the broker, with its name."""
    for path in sorted(PROTOCOLS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("goqueue.broker"):
                module = import_module(node.module or "")
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", getattr(module, alias.name)


def test_every_coroutine_that_protocols_call_is_an_operation_or_passes_the_caller() -> None:
    called = {name: each for name, each in imported_by_protocols() if iscoroutinefunction(each)}
    assert len(called) > 80
    undeclared = {name: each for name, each in called.items() if not hasattr(each, "declaration")}
    # These wait, and then call operations: the caller is theirs to pass along.
    assert [name for name, each in undeclared.items() if "caller" not in inspect.signature(each).parameters] == []


def test_every_operation_is_named_noun_verb_and_acts_on_a_known_resource() -> None:
    assert len(OPERATIONS) > 80
    for name, declaration in OPERATIONS.items():
        noun, _, verb = name.partition(".")
        assert noun
        assert verb
        assert declaration.on in get_args(Resource)
        assert bool(declaration.at) is (declaration.on != "cluster")


def test_the_declared_resource_is_a_parameter() -> None:
    for declaration in OPERATIONS.values():
        if declaration.signature is not None:
            service, caller, *others = declaration.signature.parameters
            assert (service, caller) != (caller, service)
            assert caller == "caller"
            assert not declaration.at or declaration.at.split(".")[0] in others


def test_declaration_finds_the_resource_in_a_call() -> None:
    delete = OPERATIONS["topics.delete"]
    assert (delete.on, delete.resource_in(None, ME, "orders")) == ("topic", "orders")
    assert delete.resource_in(None, ME, wanted="orders") == "orders"
    join = join_group.declaration  # type: ignore[attr-defined]
    assert (join.on, join.at) == ("group", "command.group")
    assert OPERATIONS["topics.create"].writes
    assert OPERATIONS["queues.list"].resource_in(None, ME) is None


def test_operations_are_counted_by_their_outcome() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        await broker.start()
        await create_topic(broker.topics, ME, "t")
        with pytest.raises(TopicExists):
            await create_topic(broker.topics, ME, "t")
        for _ in range(3):
            with pytest.raises(UnknownTopic):
                await describe_topic(broker.topics, ME, "nowhere")
        await describe_topic(broker.topics, ME._replace(protocol="other"), "t")
        counts = {key: stats.count for key, stats in broker.core.admission.stats.items()}
        assert counts[OperationKey("topics.create", "test", "ok")] == 1
        assert counts[OperationKey("topics.create", "test", "topic_exists")] == 1
        assert counts[OperationKey("topics.describe", "test", "unknown_topic")] == 3
        assert counts[OperationKey("topics.describe", "other", "ok")] == 1
        await broker.stop()

    simulate(main, 7)


def test_durations_are_counted_in_buckets() -> None:
    clock = ManualClock()
    admission = Admission(clock)
    for seconds in (0.0001, 0.003, 0.003, 100.0):
        began = admission.enter(FETCH)
        clock.advance(seconds)
        admission.leave(FETCH, ME, began, "ok")
    stats = admission.stats[OperationKey("messages.fetch", "test", "ok")]
    assert (stats.count, sum(stats.by_bucket)) == (4, 4)
    assert stats.seconds == pytest.approx(100.0061)
    assert (stats.by_bucket[0], stats.by_bucket[BUCKETS_S.index(0.005)], stats.by_bucket[-1]) == (1, 2, 1)


def test_draining_broker_admits_nothing() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        await broker.start()
        broker.core.admission.is_draining = True
        with pytest.raises(Draining):
            await describe_topic(broker.topics, ME, "t")
        await broker.stop()

    simulate(main, 7)


def test_full_disk_refuses_only_operations_that_write() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        await broker.start()
        await create_topic(broker.topics, ME, "t")
        broker.core.admission.is_disk_guarded = True
        with pytest.raises(DiskFull):
            await create_topic(broker.topics, ME, "u")
        with pytest.raises(DiskFull):
            await new_producer(broker.transactions, ME)
        assert (await describe_topic(broker.topics, ME, "t")).topic.name == "t"
        await delete_topic(broker.topics, ME, "t")
        await broker.stop()

    simulate(main, 7)
