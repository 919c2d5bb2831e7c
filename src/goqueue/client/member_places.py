"""Where a member of a group is in its partitions: as far as polls have brought it, and as far as that is committed.

| place       | what it is                                                                                            |
|-------------|-------------------------------------------------------------------------------------------------------|
| `now`       | the offset behind what polls have brought; of a partition without messages, where reading began       |
| `done`      | the same without what the last poll has brought                                                       |
| `committed` | what is known to be committed                                                                         |
| `sought`    | where the broker is to go on, and has not heard of it yet: a seek, or because it has forgotten         |

Heartbeats take partitions away while another thread polls, so each step holds the lock; none of them waits.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping

from goqueue.api.groups import GroupPartition
from goqueue.client.group_values import PartitionOffset
from goqueue.client.groups import GroupPage
from goqueue.client.messages import Message

# What goes into the address of one poll: servers and proxies take some 8 KiB of it, and escapes make it longer.
_SOUGHT_BYTES_MAX = 3000
_SOUGHT_BYTES_EACH = 40


class Places:
    """The places of one member, as long as it is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: dict[GroupPartition, int] = {}
        self._now: dict[GroupPartition, int] = {}
        self._done: dict[GroupPartition, int] = {}
        self._committed: dict[GroupPartition, int] = {}
        self._sought: dict[GroupPartition, int] = {}

    @property
    def positions(self) -> list[PartitionOffset]:
        """The offsets behind what polls have brought."""
        with self._lock:
            return [PartitionOffset(each.topic, each.partition, offset) for each, offset in self._now.items()]

    @property
    def has_unsaved(self) -> bool:
        """Whether something was brought, or sought, that is not committed."""
        with self._lock:
            return any(self._committed.get(each, self._began.get(each)) != at for each, at in self._now.items())

    @property
    def has_uncommitted_start(self) -> bool:
        """Whether there is a partition in which nothing was committed yet."""
        with self._lock:
            return any(each not in self._committed for each in self._now)

    def unknown(self, assigned: Iterable[GroupPartition]) -> set[GroupPartition]:
        """Return those partitions of which nobody has told yet where the member is."""
        with self._lock:
            return {each for each in assigned if each not in self._now}

    def finish(self) -> None:
        """Record that all is done that polls have brought."""
        with self._lock:
            self._done = dict(self._now)

    def keep(self, held: Collection[GroupPartition]) -> None:
        """Forget all partitions but these."""
        with self._lock:
            for table in self._tables:
                for each in [each for each in table if each not in held]:
                    del table[each]

    def clear(self) -> None:
        """Forget all partitions."""
        self.keep(())

    def go_back(self, committed: Mapping[GroupPartition, int]) -> None:
        """Seek the committed offset of each partition; where nothing is committed, the offset where reading began."""
        with self._lock:
            for each in list(self._now):
                target = committed.get(each, self._began.get(each))
                if target is None:
                    continue
                if each in committed:
                    self._committed[each] = target
                if target != self._now[each] or each in self._sought:
                    self._sought[each] = self._now[each] = target
                self._done[each] = target

    # -- messages

    def seek(self, each: GroupPartition, offset: int) -> None:
        """Go on elsewhere."""
        with self._lock:
            self._sought[each] = self._now[each] = offset

    def next_sought(self) -> tuple[dict[GroupPartition, int], bool]:
        """Return as much as one poll can tell of where to go on, and whether that is all of it."""
        with self._lock:
            told: dict[GroupPartition, int] = {}
            bytes_left = _SOUGHT_BYTES_MAX
            for each, offset in self._sought.items():
                bytes_left -= len(each.topic) + _SOUGHT_BYTES_EACH
                if bytes_left < 0 and told:
                    return told, False
                told[each] = offset
            return told, True

    def seek_again(self, sent: Collection[GroupPartition]) -> bool:
        """Seek where the member was in all partitions but those that were sent already; tell whether there are any."""
        with self._lock:
            forgotten = {each: at for each, at in self._now.items() if each not in sent and each not in self._sought}
            self._sought |= forgotten
            return bool(forgotten)

    def take(self, page: GroupPage, sent: Mapping[GroupPartition, int]) -> list[Message]:
        """Go on behind what a poll has brought that had told these seeks; return its messages.

        Those of partitions in which the member has to go on elsewhere are left out.
        """
        with self._lock:
            for each, offset in sent.items():
                if self._sought.get(each) == offset:
                    del self._sought[each]
            for told in page.offsets:
                each = GroupPartition(told.topic, told.partition)
                if each in self._sought:
                    continue
                self._now[each] = told.offset
                if each not in self._began:
                    self._began[each] = _first_offset(page, told)
                    self._done.setdefault(each, self._began[each])
            if not self._sought:
                return list(page.messages)
            return [each for each in page.messages if GroupPartition(each.topic, each.partition) not in self._sought]

    # -- commits

    def wanted(self, *, is_done: bool) -> dict[GroupPartition, int]:
        """Return what there is to commit; if not all `is_done`, without what the last poll has brought."""
        with self._lock:
            return dict(self._now if is_done else self._done)

    def unsaved(self, wanted: Mapping[GroupPartition, int]) -> dict[GroupPartition, int]:
        """Return what of it is not committed yet."""
        with self._lock:
            return {each: offset for each, offset in wanted.items() if self._committed.get(each) != offset}

    def saved(self, each: GroupPartition, offset: int) -> None:
        """Record a commit."""
        with self._lock:
            self._committed[each] = offset

    def drop(self, each: GroupPartition) -> None:
        """Forget one partition."""
        with self._lock:
            for table in self._tables:
                table.pop(each, None)

    @property
    def _tables(self) -> tuple[dict[GroupPartition, int], ...]:
        return (self._began, self._now, self._done, self._committed, self._sought)


def _first_offset(page: GroupPage, told: PartitionOffset) -> int:
    """Return where a page begins in a partition of which it tells first."""
    for message in page.messages:
        if message.partition == told.partition and message.topic == told.topic:
            return message.offset
    return told.offset
