"""Sessions in which members of share groups fetch and acknowledge messages."""

from __future__ import annotations

from goqueue.errors.kinds import Conflict, NotFound, Throttled


class ShareSessionNotFound(NotFound):
    """The member has no session: it was closed, or the broker has been started since."""

    code = "share_session_not_found"
    retriable = True


class InvalidShareSessionEpoch(Conflict):
    """A request is not the one that the session expects next."""

    code = "invalid_share_session_epoch"
    retriable = True


class ShareSessionLimit(Throttled):
    """The broker has as many sessions as it takes."""

    code = "share_session_limit_reached"
