"""Tells the broker how far a stream has got, as offsets of a group: so that people see its lag, and retention waits.

It is a courtesy. The checkpoint alone decides where a query goes on, so nothing that fails here may fail the query: it
is logged once, and tried again a while later. Offsets travel over HTTP; where that is, an option says, or the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from goqueue.client import Client, PartitionOffset, Patience, groups
from goqueue.errors import GoQueueError
from goqueue.seams.clock import Clock, SystemClock
from goqueue.spark.broker import http_address
from goqueue.spark.source.offsets import Positions

_TIMEOUT_S = 2.0
_PAUSE_S = 30.0

_log = logging.getLogger("goqueue.spark")


class Progress:
    """The group of one query; `settings` asks the broker for its settings, which may name its HTTP address."""

    def __init__(
        self,
        group: str,
        http_url: str | None,
        settings: Callable[[], Mapping[str, str | None]],
        clock: Clock | None = None,
    ) -> None:
        self._group = group
        self._http_url = http_url
        self._found_url: str | None = None
        self._settings = settings
        self._clock = clock or SystemClock()
        self._reported: Positions | None = None
        self._not_before = 0.0
        self._is_failure_told = False

    def report(self, positions: Positions) -> None:
        """Commit the offsets of the group, unless they are known already, or it has just failed."""
        if positions == self._reported or self._clock.monotonic() < self._not_before:
            return
        try:
            self._commit(positions)
        except GoQueueError as error:
            self._not_before = self._clock.monotonic() + _PAUSE_S
            # A broker that has moved tells another one.
            self._found_url = None
            if not self._is_failure_told:
                _log.warning("the progress of group %r cannot be reported, the query goes on: %s", self._group, error)
            self._is_failure_told = True
        else:
            self._reported = positions
            self._is_failure_told = False

    def _commit(self, positions: Positions) -> None:
        offsets = [PartitionOffset(place.topic, place.partition, offset) for place, offset in positions.items()]
        if not offsets:
            return
        if self._http_url is None and self._found_url is None:
            self._found_url = http_address(self._settings())
        url = self._http_url or self._found_url or ""
        with Client(url, timeout_s=_TIMEOUT_S, patience=Patience(attempts=1)) as client:
            for refusal in client.send(groups.commit(self._group, offsets)):
                if refusal is not None:
                    raise refusal
