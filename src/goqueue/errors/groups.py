"""Groups, their members and offsets."""

from __future__ import annotations

from goqueue.errors.kinds import Conflict, Fenced, Invalid, NotFound, Unavailable


class InvalidGroup(Invalid):
    """No group can have that name."""

    code = "invalid_group"


class UnknownGroup(NotFound):
    """There is no group of that name."""

    code = "unknown_group"


class GroupNotEmpty(Conflict):
    """What is asked for needs a group without members."""

    code = "group_not_empty"


class GroupSubscribed(Conflict):
    """Offsets of a topic cannot go while members of the group read it."""

    code = "group_subscribed"


class InconsistentProtocol(Conflict):
    """A member does not fit to its group: another kind of group, or no way of assigning that all members know."""

    code = "inconsistent_group_protocol"


class InvalidSessionTimeout(Invalid):
    """A member asks for a session that is too short or too long."""

    code = "invalid_session_timeout"


class GroupFull(Conflict):
    """The group takes no more: it has as many members as it may have, or they say too much together."""

    code = "group_full"


class GroupRequestTooLarge(Invalid):
    """A member says more than a group keeps of one: its names, what it reads, or what it assigns."""

    code = "group_request_too_large"


class UnknownMember(NotFound):
    """The group has no such member: it left, or was silent for too long."""

    code = "unknown_member"


class MemberIdRequired(Conflict):
    """A new member has to join again, with the id that it is given here."""

    code = "member_id_required"
    retriable = True

    def __init__(self, message: str, *, member_id: str) -> None:
        super().__init__(message)
        self.member_id = member_id


class StaleGeneration(Fenced):
    """A member acts with a generation of its group that is over, or for a partition that is not its own."""

    code = "stale_generation"


class InstanceFenced(Fenced):
    """Another member has taken over under the same instance id."""

    code = "instance_fenced"


class InstanceInUse(Conflict):
    """Another member with the same instance id has not left yet."""

    code = "instance_in_use"
    retriable = True


class MemberFenced(Fenced):
    """A member's epoch is not the one that its group knows; it has to join again."""

    code = "member_fenced"


class StaleMemberEpoch(Fenced):
    """A member acts with an old epoch, or for a partition that is not its own; its next heartbeat tells what is new."""

    code = "stale_member_epoch"
    retriable = True


class RebalanceInProgress(Conflict):
    """The group is being rebalanced; members have to join again."""

    code = "rebalance_in_progress"
    retriable = True


class UnsupportedAssignor(Invalid):
    """The broker knows no assignor of that name."""

    code = "unsupported_assignor"


class InvalidPattern(Invalid):
    """A subscription is not a regular expression that the broker can use."""

    code = "invalid_pattern"


class OffsetMetadataTooLarge(Invalid):
    """What a member wants to be kept beside an offset is too long."""

    code = "offset_metadata_too_large"


class CommitTooLarge(Invalid):
    """One commit brings more offsets, or more metadata beside them, than are stored at once."""

    code = "commit_too_large"


class UnstableOffsets(Unavailable):
    """A transaction is about to change the offsets that are asked for."""

    code = "unstable_offsets"


class CoordinatorUnavailable(Unavailable):
    """The log that holds the state of the group or transaction cannot be used."""

    code = "coordinator_unavailable"


class UnknownQueue(NotFound):
    """There is no queue group of that name, or it has not begun with that partition."""

    code = "unknown_queue"


class StaleReceipt(Conflict):
    """The message is not leased under this receipt any more."""

    code = "stale_receipt"


class InvalidReceipt(Invalid):
    """What was shown as a receipt is none."""

    code = "invalid_receipt"


class UnknownRedrive(NotFound):
    """There is no redrive with that id, or it has ended so long ago that it is forgotten."""

    code = "unknown_redrive"


class RedriveRunning(Conflict):
    """What is asked for has to wait until a redrive of the same dead letters has ended."""

    code = "redrive_running"
