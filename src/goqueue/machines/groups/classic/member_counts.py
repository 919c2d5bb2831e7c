"""What the members of a classic group know and weigh together, kept up to date while they join one by one.

To ask all members anew at every join would make a round of n members cost n times n.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec

from goqueue.machines.groups.classic.values import ClassicMember

# Numbers, names of fields, and what a record costs.
_FRAME_BYTES = 250


class Tally(NamedTuple):
    """How many members there are, how much is stored of them, and how many of them know each protocol."""

    members: int = 0
    stored_bytes: int = 0
    known: Mapping[str, int] = {}

    def with_member(self, member: ClassicMember) -> Tally:
        """Return the tally with one more member."""
        known = dict(self.known)
        for name in member.protocol_names:
            known[name] = known.get(name, 0) + 1
        return Tally(self.members + 1, self.stored_bytes + member.stored_bytes, known)

    def without(self, members: Iterable[ClassicMember]) -> Tally:
        """Return the tally without some of its members."""
        count, stored_bytes, known = self.members, self.stored_bytes, dict(self.known)
        for member in members:
            count -= 1
            stored_bytes -= member.stored_bytes
            for name in member.protocol_names:
                known[name] -= 1
                if not known[name]:
                    del known[name]
        return Tally(count, stored_bytes, known)

    def have_in_common(self, names: Iterable[str]) -> bool:
        """Tell whether all members know one of these protocols."""
        return any(self.known.get(name, 0) == self.members for name in names)


def tally_of(members: Iterable[ClassicMember]) -> Tally:
    """Return the tally of some members."""
    members = list(members)
    known = Counter(name for member in members for name in member.protocol_names)
    return Tally(len(members), sum(member.stored_bytes for member in members), dict(known))


def weighed(group: str, member: ClassicMember) -> ClassicMember:
    """Return a member with how much is stored of it, besides what it is assigned."""
    names = [group, member.id, member.instance_id, member.client_id, member.client_host]
    names += [each.name for each in member.protocols]
    said = sum(len(each.metadata) + 2 for each in member.protocols)
    return replace(member, stored_bytes=_FRAME_BYTES + len(msgspec.json.encode(names)) + said * 4 // 3)
