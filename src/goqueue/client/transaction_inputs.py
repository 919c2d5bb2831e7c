"""Which consumers a transaction reads from, so that they go back to the committed offsets if it does not commit.

| how the transaction knows a consumer                                       | when the consumer rewinds      |
|----------------------------------------------------------------------------|--------------------------------|
| `transaction(id, consumer=...)` or `send_offsets` names it or its `member` | always                         |
| an earlier transaction of the same id has named it                         | if not all of it is committed  |
| the thread or task of the block polled it                                  | if not all of it is committed  |

The last two are for blocks that fail before they send the offsets of all their consumers. Consumers are found by their
member id among all consumers of the process, since the one that reads may belong to another client than the one that
writes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Union
from weakref import WeakSet, WeakValueDictionary, ref

from goqueue.client.group_values import PartitionOffset
from goqueue.client.groups import Known
from goqueue.client.member_script import MemberScript
from goqueue.errors import Conflict

if TYPE_CHECKING:
    from goqueue.client.consumer import AsyncConsumer, Consumer

AnyConsumer = Union["Consumer", "AsyncConsumer"]

_SCRIPTS: WeakValueDictionary[tuple[str, str], MemberScript] = WeakValueDictionary()


def register(script: MemberScript) -> None:
    """Let transactions find a member by its id."""
    _SCRIPTS[script.group, script.member_id] = script


def current_thread() -> object:
    """Return what `MemberScript.polled_by` is in this thread."""
    return threading.get_ident()


def current_task() -> object:
    """Return what `MemberScript.polled_by` is in this task."""
    task = asyncio.current_task()
    return None if task is None else ref(task)


class Sent:
    """What one call of `send_offsets` sends, and for which consumer if it is one of this process."""

    def __init__(
        self,
        group: str | AnyConsumer,
        offsets: Iterable[PartitionOffset] | None,
        member: Known | AnyConsumer | None,
    ) -> None:
        script = script_of(group) or script_of(member)
        if isinstance(group, str):
            if offsets is None:
                raise TypeError("send_offsets takes a consumer, or the name of a group and offsets")
            self.group = group
            self.offsets = list(offsets)
        elif script is None or offsets is not None or member is not None:
            raise TypeError("send_offsets takes a consumer alone, or the name of a group and offsets")
        else:
            self.group = script.group
            self.offsets = script.positions
        self.member: Known | None = _membership(script) if script is not None else member  # type: ignore[assignment]
        self.script = script or self._find()

    def _find(self) -> MemberScript | None:
        return None if self.member is None else _SCRIPTS.get((self.group, self.member.member_id))


def script_of(found: object) -> MemberScript | None:
    """Return the script of a consumer; None of anything else."""
    script = getattr(found, "_script", None)
    return script if isinstance(script, MemberScript) else None


def _membership(script: MemberScript) -> Known:
    if script.member is None:
        raise Conflict(f"the consumer is no member of group {script.group!r} at the moment", hint="poll first")
    return script.member


class Inputs:
    """The consumers that one transaction reads from."""

    def __init__(self, known: WeakSet[MemberScript]) -> None:
        # Those of all transactions of the same id.
        self._known = known
        self._named: dict[MemberScript, list[PartitionOffset]] = {}

    def name(self, script: MemberScript | None, offsets: Iterable[PartitionOffset] = ()) -> None:
        """Record that a consumer was named, with offsets to commit; None is one that is not of this process."""
        if script is not None:
            script.enter_transaction()
            self._known.add(script)
            self._named.setdefault(script, []).extend(offsets)

    def to_rewind(self, me: object) -> list[MemberScript]:
        """Return the consumers that have to go back if the transaction fails, in this thread or task."""
        polled = [each for each in list(_SCRIPTS.values()) if each.polled_by == me and me is not None]
        unnamed = {*self._known, *polled} - self._named.keys()
        return [*self._named, *(each for each in unnamed if each.has_unsaved)]

    def committed(self) -> None:
        """Record that all offsets that were sent are committed."""
        for script, offsets in self._named.items():
            script.saved(offsets)
