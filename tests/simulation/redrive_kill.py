"""A broker that is killed between the commit of a redrive's batch and the note of it, and goes on with larger batches.

Random worlds hardly ever get there: what was committed has to differ from what the next broker would publish.
"""

from __future__ import annotations

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.broker import Broker
from goqueue.broker.redrives import batches as redrive_batches
from goqueue.broker.redrives.batches import gather, sink_of, stage
from goqueue.broker.transactions.sinks import commit_batch
from goqueue.machines.redrives.values import PlanBatch, Redrive, RedriveBatch, RedriveTerms, Start
from goqueue.machines.transactions.values import SinkStage
from goqueue.model.redrives import RedriveState
from goqueue.testing import SimDisk
from tests.simulation.group_calls import MakeTopic
from tests.simulation.group_stage import let_pass, live
from tests.simulation.redrive_calls import LookAtRedrives, ReadCopies, WriteLetter

VALUES = ["v0", "v1"]


async def _commit_the_first_letter(broker: Broker) -> None:
    for topic in ("orders", "orders.dlq"):
        await MakeTopic(topic, 1).perform(broker)
    for value in VALUES:
        await WriteLetter("orders.dlq", value, "rejected", "orders", 0).perform(broker)
    letters = broker.topics.topic("orders.dlq")
    command = Start("1" * 32, "orders.dlq", letters.topic.id, RedriveTerms(), {0: (0, len(VALUES))})
    job: Redrive = await broker.redrives.submit(command.id, command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redrive_batches, "BATCH_LETTERS", 1)
        gathered = await gather(broker.redrives, job, letters.partition(0))
    assert len(gathered.letters) == 1
    staged = await stage(broker.redrives, job, gathered.letters)
    batch = RedriveBatch(job.number + 1, 0, gathered.end, staged.moved, staged.moves + gathered.moves, "")
    await broker.redrives.submit(job.id, PlanBatch(job.id, batch))
    writer = staged.writer
    await commit_batch(
        broker.transactions, INSIDE, sink_of(job), batch.number, [SinkStage(writer.transactional_id, *writer.identity)]
    )


def violations_after_a_kill() -> list[str]:
    """Run both brokers; return what is wrong with what they have published."""
    disk = SimDisk(1)
    found: list[str] = []

    async def go_on(broker: Broker) -> None:
        await let_pass(20)
        (job,) = await LookAtRedrives().perform(broker)
        values = [copy.value for copy in await ReadCopies("orders").perform(broker)]
        if job.state is not RedriveState.DONE:
            found.append(f"the redrive is {job.state}")
        if sorted(values) != VALUES:
            found.append(f"{VALUES} were published as {values}")

    live(disk, 1, _commit_the_first_letter)
    live(disk, 2, go_on, stops=True)
    return found
