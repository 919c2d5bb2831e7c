"""Where each leader epoch began in the log; answers how far two logs with a common past agree."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from goqueue.log.segment import EpochStart

NO_EPOCH = -1


class EpochEnd(NamedTuple):
    """The offset at which an epoch ended: the next one's first, or the end of the log."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs of one log in order, each with its first offset; `latest` is the newest, or NO_EPOCH."""

    __slots__ = ("_starts", "latest")

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self._starts: list[EpochStart] = []
        self.latest = NO_EPOCH
        for start in starts:
            self.note(*start)

    def __iter__(self) -> Iterator[EpochStart]:
        return iter(self._starts)

    def note(self, epoch: int, offset: int) -> None:
        """Record that a batch of an epoch lies at an offset; only the first one of an epoch matters."""
        if epoch > self.latest:
            self._starts.append(EpochStart(epoch, offset))
            self.latest = epoch

    def trim(self, start_offset: int) -> None:
        """Forget epochs that ended before the new start of the log."""
        while len(self._starts) > 1 and self._starts[1].start_offset <= start_offset:
            del self._starts[0]

    def end_up_to(self, epoch: int, log_end: int) -> int:
        """Return where the first epoch above the given one begins, or the end of the log: all before it is older."""
        return next((start.start_offset for start in self._starts if start.epoch > epoch), log_end)

    def end_of(self, epoch: int, log_end: int) -> EpochEnd | None:
        """Return the greatest epoch not above the asked one, and the offset at which it ends.

        None when no epoch that old is known, or when the asked one is newer than all.
        """
        if epoch > self.latest:
            return None
        number = bisect_right([start.epoch for start in self._starts], epoch)
        if number == 0:
            return None
        end = self._starts[number].start_offset if number < len(self._starts) else log_end
        return EpochEnd(self._starts[number - 1].epoch, end)
