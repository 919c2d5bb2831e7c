"""The end of a redrive leaves nothing behind, whatever its last batch had come to, and it comes to an end."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.redrives.admin import cancel_redrive
from goqueue.broker.redrives.batches import gather, stage
from goqueue.errors import GoQueueError
from goqueue.machines.redrives.values import Moves, Redrive, RedriveTerms, Start
from goqueue.model import dead_letters
from goqueue.model.redrives import RedriveState
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import HEADER_BYTES
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.redrive_calls import LookAtRedrives, StartRedrive, WriteLetter
from tests.simulation.redrive_kill import violations_after_a_kill


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _stage_only(broker: Broker) -> None:
    """Do what a broker has done that is gone when copies are published and nothing says so yet."""
    for topic in ("orders", "orders.dlq"):
        await MakeTopic(topic, 1).perform(broker)
    await WriteLetter("orders.dlq", "v", "rejected", "orders", 0).perform(broker)
    letters = broker.topics.topic("orders.dlq")
    command = Start("1" * 32, "orders.dlq", letters.topic.id, RedriveTerms(), {0: (0, 1)})
    job: Redrive = await broker.redrives.submit(command.id, command)
    gathered = await gather(broker.redrives, job, letters.partition(0))
    await stage(broker.redrives, job, gathered.letters)
    await cancel_redrive(broker.redrives, CALLER, command.id)


async def _require_cancelled(broker: Broker) -> None:
    """Check that the only redrive was cancelled, and that nobody who reads its target has to wait."""
    (job,) = await LookAtRedrives().perform(broker)
    assert job.state is RedriveState.CANCELLED
    target = broker.topics.topic("orders").partition(0)
    assert target.last_stable_offset == target.log.end_offset


def test_a_letter_that_says_it_comes_from_a_huge_topic_fails_alone() -> None:
    async def act(broker: Broker) -> None:
        for topic in ("orders", "orders.dlq"):
            await MakeTopic(topic, 1).perform(broker)
        said = [(dead_letters.REASON_HEADER, b"rejected"), (dead_letters.TOPIC_HEADER, b"\xff" * 30_000_000)]
        batch = build_batch([NewRecord(1, None, b"v", said)], codec=Codec.ZSTD)
        section = Section(broker.topics.topic("orders.dlq").partition(0), batch)
        (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [section])
        assert not isinstance(outcome, GoQueueError)
        await WriteLetter("orders.dlq", "v", "rejected", "orders", 0).perform(broker)
        await StartRedrive("orders.dlq", RedriveTerms()).perform(broker)
        await let_pass(5)
        (job,) = await LookAtRedrives().perform(broker)
        assert (job.state, job.moves) == (RedriveState.DONE, Moves(moved=1, failed=1))
        assert "cannot be the name of a topic" in job.error
        assert len(job.error) <= 500

    live(SimDisk(1), 1, act, stops=True)


def test_readers_of_the_target_do_not_wait_for_a_batch_that_was_cancelled_before_it_was_planned() -> None:
    disk = SimDisk(1)

    async def go_on(broker: Broker) -> None:
        await let_pass(5)
        await _require_cancelled(broker)

    live(disk, 1, _stage_only)
    live(disk, 2, go_on, stops=True)


def test_a_redrive_has_not_ended_before_what_it_has_staged_is_aborted() -> None:
    disk = SimDisk(1)

    async def go_on(broker: Broker) -> None:
        disk.fail(errno.ENOSPC, operation="write", path="*__transactions-*/*.log", times=None)
        await let_pass(5)
        (job,) = await LookAtRedrives().perform(broker)
        assert job.state is RedriveState.CANCELLING
        disk.heal()
        await let_pass(20)
        await _require_cancelled(broker)

    live(disk, 1, _stage_only)
    live(disk, 2, go_on, stops=True)


def test_a_redrive_ends_though_the_log_is_damaged_that_knew_what_it_has_staged() -> None:
    disk = SimDisk(1)

    async def go_on(broker: Broker) -> None:
        assert not broker.transactions.is_whole
        await let_pass(5)
        (job,) = await LookAtRedrives().perform(broker)
        assert job.state is RedriveState.CANCELLED

    live(disk, 1, _stage_only, stops=True)
    for path in [PurePath(each) for each in disk.tree() if "__transactions-" in each and each.endswith(".log")]:
        if disk.read_file(path):
            disk.flip(path, HEADER_BYTES + 4, 0x01)
    live(disk, 2, go_on, stops=True)


def test_a_redrive_that_has_staged_nothing_ends_though_the_disk_is_nearly_full() -> None:
    async def act(broker: Broker) -> None:
        await MakeTopic("orders.dlq", 1).perform(broker)
        await WriteLetter("orders.dlq", "v", "rejected", "orders", 0).perform(broker)
        command = Start("1" * 32, "orders.dlq", broker.topics.topic("orders.dlq").topic.id, RedriveTerms(), {0: (0, 1)})
        await broker.redrives.submit(command.id, command)
        broker.core.admission.is_disk_guarded = True
        await cancel_redrive(broker.redrives, CALLER, command.id)
        broker.redrives.driver.look_at_all()
        await let_pass(0.1)
        assert broker.core.admission.is_disk_guarded
        (job,) = await LookAtRedrives().perform(broker)
        assert job.state is RedriveState.CANCELLED

    live(SimDisk(1), 1, act, stops=True)


def test_a_redrive_publishes_what_follows_a_batch_that_a_killed_broker_has_committed() -> None:
    assert violations_after_a_kill() == []
