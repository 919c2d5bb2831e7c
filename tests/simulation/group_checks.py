"""Whether classic groups keep their word: a generation is one set of members, and who is left behind cannot commit."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.machines.groups.classic.values import Join, Joined
from goqueue.machines.groups.commands import CommitOffsets, DeleteGroup
from tests.simulation.group_history import Call, History


class Told(NamedTuple):
    """A member was told of a generation; members go by their instance ids, if they have one."""

    call: Call
    generation: int
    member: str
    leader: str
    members: frozenset[str] | None


def check_generations(history: History) -> list[str]:
    """Return the generations that were told twice, with different members or another leader."""
    faults = []
    for group, told in _told(history).items():
        deletions = _deletions(history, group)
        by_generation: dict[int, list[Told]] = {}
        for each in told:
            by_generation.setdefault(each.generation, []).append(each)
        for generation, alike in by_generation.items():
            for number, each in enumerate(alike):
                for other in alike[:number]:
                    if not _differ(each, other) or _may_be_another(deletions, other.call, each.call):
                        continue
                    faults.append(f"generation {generation} of {group} was told as {other} and as {each}")
    return faults


def _differ(one: Told, other: Told) -> bool:
    if one.leader != other.leader:
        return True
    lists = [each.members for each in (one, other) if each.members is not None]
    return any(each != lists[0] or not {one.member, other.member} <= each for each in lists)


def check_zombies(history: History) -> list[str]:
    """Return the commits that were taken from members whose generation was over, as somebody had been told by then."""
    faults = []
    told = _told(history)
    for call, request in history.of(CommitOffsets):
        if not call.is_done or request.producer_id is not None or not any(each is None for each in call.answer):
            continue
        deletions = _deletions(history, request.group)
        for each in told.get(request.group, ()):
            is_over = each.call.ended < call.began and each.generation > request.epoch
            if is_over and not _may_be_another(deletions, each.call, call):
                faults.append(f"{request} was taken after {each}")
                break
    return faults


def _told(history: History) -> dict[str, list[Told]]:
    """Return what was told of the generations of each group, in the order of the answers."""
    # Somebody whose answer got lost may have become a member all the same, under the id that was meant for it.
    names = {request.new_id: request.instance_id for _, request in history.of(Join) if request.instance_id is not None}
    found: dict[str, list[Told]] = {}
    for call, request in sorted(history.of(Join), key=lambda each: each[0].ended):
        answer = call.answer
        if isinstance(answer, Joined):
            members = frozenset(each.instance_id or each.member_id for each in answer.members) or None
            member, leader = (names.get(each, each) for each in (answer.member_id, answer.leader))
            found.setdefault(request.group, []).append(Told(call, answer.generation, member, leader, members))
    return found


def _deletions(history: History, group: str) -> list[Call]:
    return [call for call, request in history.of(DeleteGroup) if request.group == group and not call.is_refused]


def _may_be_another(deletions: list[Call], one: Call, other: Call) -> bool:
    """Tell whether the group may have been deleted in between: then it counts its generations anew."""
    first, last = sorted([one, other], key=lambda each: each.began)
    return any(each.until > first.began and each.began < last.ended for each in deletions)
