"""Why groups are rebalanced, in one word each: what is counted over all groups.

The sentence that is kept with each rebalance names members and topics, and clients may add words of their own; a word
is one of a few. It is found in the part of the sentence that is the broker's.
"""

from __future__ import annotations

import re
from enum import StrEnum

from goqueue.machines.groups.kinds import Group


class RebalanceKind(StrEnum):
    """What made a rebalance necessary; `kept` is what somebody did not give back in time."""

    JOINED = "joined"
    LEFT = "left"
    SILENT = "silent"
    KEPT = "kept"
    SUBSCRIBED = "subscribed"
    ASSIGNOR = "assignor"
    TOPICS = "topics"
    STARTED = "started"
    OTHER = "other"


_MORE = re.compile(r", and \d+ more$")
_SENTENCES = (
    (re.compile(r"^topic \S+ (was (made|made anew|deleted)|got \d+ more partitions?)$"), RebalanceKind.TOPICS),
    (re.compile(r"^the broker was started again$"), RebalanceKind.STARTED),
    (re.compile(r" (joined|joined again|came back as instance .*)$", re.DOTALL), RebalanceKind.JOINED),
    (re.compile(r" was silent for [\d.]+ s$"), RebalanceKind.SILENT),
    (re.compile(r" did not give back .* within [\d.]+ s$", re.DOTALL), RebalanceKind.KEPT),
    (re.compile(r" subscribes to other topics(, or assigns otherwise)?$"), RebalanceKind.SUBSCRIBED),
    (re.compile(r" asks for \S+, and so partitions are assigned by \S+$"), RebalanceKind.ASSIGNOR),
    (re.compile(r" left(: .*)?$", re.DOTALL), RebalanceKind.LEFT),
)


def kind_of_reason(reason: str) -> RebalanceKind:
    """Return the word for a sentence."""
    sentence = _MORE.sub("", reason)
    return next((kind for pattern, kind in _SENTENCES if pattern.search(sentence)), RebalanceKind.OTHER)


def new_rebalances(before: Group | None, after: Group | None) -> list[RebalanceKind]:
    """Return of which kinds the rebalances are that one value of a group has more than the one before."""
    if after is None or type(after) is not type(before or after):
        before = None
    if after is None:
        return []
    count = after.rebalance_count - (before.rebalance_count if before is not None else 0)
    return [kind_of_reason(each.reason) for each in after.rebalances[-count:]] if count > 0 else []
