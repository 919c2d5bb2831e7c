"""Kinds of rebalances, for metrics over all groups.

The stored reason of a rebalance is a sentence with names of members and topics, and clients may add to it. Its kind is
found in the part that the broker wrote.
"""

from __future__ import annotations

import re
from enum import StrEnum

from goqueue.machines.groups.kinds import Group


class RebalanceKind(StrEnum):
    """The cause of a rebalance; `kept` means that a member did not revoke partitions in time."""

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
    (re.compile(r"^topic \S+ (was (created|re-created|deleted)|got \d+ more partitions?)$"), RebalanceKind.TOPICS),
    (re.compile(r"^the broker restarted$"), RebalanceKind.STARTED),
    (re.compile(r" (joined|joined again|came back as instance .*)$", re.DOTALL), RebalanceKind.JOINED),
    (re.compile(r" was silent for [\d.]+ s$"), RebalanceKind.SILENT),
    (re.compile(r" did not revoke .* within [\d.]+ s$", re.DOTALL), RebalanceKind.KEPT),
    (re.compile(r" subscribes to other topics(, or assigns otherwise)?$"), RebalanceKind.SUBSCRIBED),
    (re.compile(r" asks for \S+, and so partitions are assigned by \S+$"), RebalanceKind.ASSIGNOR),
    (re.compile(r" left(: .*)?$", re.DOTALL), RebalanceKind.LEFT),
)


def kind_of_reason(reason: str) -> RebalanceKind:
    """Return the kind of a reason."""
    sentence = _MORE.sub("", reason)
    return next((kind for pattern, kind in _SENTENCES if pattern.search(sentence)), RebalanceKind.OTHER)


def new_rebalances(before: Group | None, after: Group | None) -> list[RebalanceKind]:
    """Return the kinds of the rebalances that a group has and its previous value has not."""
    if after is None or type(after) is not type(before or after):
        before = None
    if after is None:
        return []
    count = after.rebalance_count - (before.rebalance_count if before is not None else 0)
    return [kind_of_reason(each.reason) for each in after.rebalances[-count:]] if count > 0 else []
