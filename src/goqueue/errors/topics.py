"""Topics, their partitions and settings."""

from __future__ import annotations

from goqueue.errors.kinds import Conflict, Invalid, NotFound


class InvalidTopicName(Invalid):
    """No topic can have that name."""

    code = "invalid_topic_name"


class InvalidTopicSettings(Invalid):
    """Settings of a topic that do not exist or have values out of range."""

    code = "invalid_topic_settings"


class InvalidPartitions(Invalid):
    """A topic cannot have that number of partitions."""

    code = "invalid_partitions"


class InvalidReplication(Invalid):
    """There are not as many brokers as the topic asks for."""

    code = "invalid_replication"


class PolicyViolation(Conflict):
    """What is asked for contradicts a setting of the topic."""

    code = "policy_violation"


class UnknownTopic(NotFound):
    """There is no topic of that name."""

    code = "unknown_topic"
    retriable = True


class UnknownTopicId(NotFound):
    """There is no topic with that id."""

    code = "unknown_topic_id"
    retriable = True


class UnknownPartition(NotFound):
    """The topic has no such partition."""

    code = "unknown_partition"
    retriable = True


class TopicExists(Conflict):
    """A topic of that name exists already."""

    code = "topic_exists"


class TopicProtected(Conflict):
    """The topic holds the broker's own state, and clients cannot write to it or change it."""

    code = "topic_protected"


class TopicPrivate(Conflict):
    """The topic holds the broker's own state, and clients cannot read it."""

    code = "topic_private"
