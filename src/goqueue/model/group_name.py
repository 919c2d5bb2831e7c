"""Names of groups: those of consumer groups, queue groups and share groups have the same rules."""

from __future__ import annotations

from goqueue.errors import InvalidGroup

GROUP_NAME_BYTES_MAX = 1000


def check_group_name(name: str) -> None:
    """Raise InvalidGroup if no group can have that name."""
    if not name:
        raise InvalidGroup("a group needs a name")
    if len(name.encode("utf-8", "surrogateescape")) > GROUP_NAME_BYTES_MAX:
        raise InvalidGroup(f"the name of a group may have {GROUP_NAME_BYTES_MAX} bytes")
