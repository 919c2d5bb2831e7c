"""The end of a redrive leaves nothing behind, whatever its last batch had come to."""

from __future__ import annotations

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.redrive_batches import gather, stage
from goqueue.broker.redrives import cancel_redrive
from goqueue.machines.redrive_values import Redrive, RedriveState, Start, Terms
from goqueue.testing import SimDisk
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.redrive_calls import LookAtRedrives, WriteLetter


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


async def _stage_only(broker: Broker) -> None:
    """Do what a broker has done that is gone when copies are published and nothing says so yet."""
    for topic in ("orders", "orders.dlq"):
        await MakeTopic(topic, 1).perform(broker)
    await WriteLetter("orders.dlq", "v", "rejected", "orders", 0).perform(broker)
    letters = broker.topic("orders.dlq")
    command = Start("1" * 32, "orders.dlq", letters.topic.id, Terms(), {0: (0, 1)})
    job: Redrive = await broker.redrives.submit(command.id, command)
    gathered = await gather(broker, job, letters.partition(0))
    await stage(broker, job, gathered.letters)
    await cancel_redrive(broker, CALLER, command.id)


def test_readers_of_the_target_do_not_wait_for_a_batch_that_was_cancelled_before_it_was_planned() -> None:
    disk = SimDisk(1)

    async def go_on(broker: Broker) -> None:
        await let_pass(5)
        (job,) = await LookAtRedrives().perform(broker)
        assert job.state is RedriveState.CANCELLED
        target = broker.topic("orders").partition(0)
        assert target.last_stable_offset == target.log.end_offset

    live(disk, 1, _stage_only)
    live(disk, 2, go_on, stops=True)
