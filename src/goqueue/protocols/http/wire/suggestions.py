"""Which name may have been meant, for an error that says that there is none of that name.

Names are compared here, once for a reply, and not where the error is raised: requests of the Kafka protocol may ask
for thousands of names, and tell none of the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from goqueue.broker.broker import Broker
from goqueue.errors import GoQueueError, UnknownGroup, UnknownQueue, UnknownTopic
from goqueue.model.near_names import did_you_mean
from goqueue.model.topic import is_internal


def suggested_hint(broker: Broker, error: GoQueueError) -> str:
    """Return the hint of an error, with the name in listener that may have been meant."""
    if not error.subject:
        return error.hint
    question = did_you_mean(error.subject, _known(broker, error))
    if not question or not error.hint:
        return question or error.hint
    return f"{question} {error.hint[:1].upper()}{error.hint[1:]}"


def _known(broker: Broker, error: GoQueueError) -> Iterable[str]:
    if isinstance(error, UnknownTopic):
        return (name for name in broker.topics.by_name if not is_internal(name))
    if isinstance(error, UnknownQueue):
        return (name for machine in broker.queues.machines for name in machine.groups)
    if isinstance(error, UnknownGroup):
        streams = (chain(machine.groups, machine.offsets.groups()) for machine in broker.groups.machines)
        return chain(chain.from_iterable(streams), *(machine.groups for machine in broker.queues.machines))
    return ()
