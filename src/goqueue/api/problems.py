"""Errors in replies: of a whole request (RFC 9457), or of one of its items."""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A problem document; the offsets are present if a requested offset does not exist."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    instance: str = ""
    offset: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None


class MessageError(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The error of one message or partition in a batch; offsets as in a problem document."""

    code: str
    message: str
    status: int
    hint: str = ""
    offset: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
