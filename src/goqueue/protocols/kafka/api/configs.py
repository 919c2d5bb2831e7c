"""Settings: DescribeConfigs, ListConfigResources, IncrementalAlterConfigs and its older form, AlterConfigs.

Settings of topics can be read and changed; those of the broker can be read (they come from its command line,
environment and file).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from goqueue.broker.topics.admin import alter_topic, describe_topic
from goqueue.broker.topics.cluster_view import list_topic_names
from goqueue.broker.topics.open_topic import OpenTopic
from goqueue.errors import GoQueueError, Invalid, InvalidTopicSettings
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.model.topic_settings import TABLE, SettingSource, TopicSetting, TopicSettings, unknown_setting
from goqueue.protocols.kafka.api.context import Context, error_fields
from goqueue.runtime.waiters import turns
from goqueue.seams.network import Address


class Resource(IntEnum):
    """A kind of resource with settings."""

    TOPIC = 2
    BROKER = 4


class Change(IntEnum):
    """How an alteration changes a value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_SOURCES: Mapping[SettingSource, int] = {SettingSource.TOPIC: 1, SettingSource.BROKER: 4, SettingSource.DEFAULT: 5}
_KINDS: Mapping[type, int] = {bool: 1, int: 5, float: 6, str: 2}
_STRING = 2
# Kafka's name of a listener without authentication.
LISTENER_NAMES = {"kafka": "PLAINTEXT"}
_LIST = 7
_UNSUPPORTED_VERSION = 35
_BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 8, 16, 32
_CONFIGURABLE = {Resource.TOPIC, Resource.BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP}
# The broker's names of defaults of topics, where they differ from the names of the topics' settings.
_BROKER_NAMES = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
}


async def describe_configs(context: Context, request: Request) -> Reply:
    """List settings with their values and where they come from."""
    results = []
    # A request that names a topic a thousand times gets it once.
    resources = {(each.resource_type, each.resource_name): each for each in request.resources or ()}
    for resource in resources.values():
        await turns(1)
        named = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        try:
            configs = await _describe(context, resource)
            results.append({**named, **error_fields(None), "configs": [_asked(each, request) for each in configs]})
        except GoQueueError as error:
            results.append({**named, **error_fields(error), "configs": []})
    return {"results": results}


def _asked(config: Reply, request: Request) -> Reply:
    """Return a setting with only those fields that the client has requested."""
    # Before version 3 there is no documentation.
    is_documented = getattr(request, "include_documentation", False)
    return {
        **config,
        "synonyms": config["synonyms"] if request.include_synonyms else [],
        "documentation": config["documentation"] if is_documented else None,
    }


async def _describe(context: Context, resource: Request) -> list[Reply]:
    keys = resource.configuration_keys or None
    if resource.resource_type == Resource.TOPIC:
        opened = await describe_topic(context.broker.topics, context.caller, resource.resource_name)
        return [
            described(setting, opened.settings, opened.topic.config)
            for setting in TABLE.values()
            if keys is None or setting.name in keys
        ]
    if resource.resource_type == Resource.BROKER:
        if resource.resource_name not in {"", str(context.node_id)}:
            raise Invalid(f"there is no broker {resource.resource_name!r}", hint=f"this is broker {context.node_id}")
        return [each for each in _broker_configs(context) if keys is None or each["name"] in keys]
    raise Invalid(f"resources of type {resource.resource_type} have no settings here", hint="2 is topics, 4 brokers")


def described(setting: TopicSetting, settings: TopicSettings, own: Mapping[str, str]) -> Reply:
    """Return one setting of a topic; `own` are those that were set for this topic."""
    value = setting.read(settings)
    source = setting.source(settings, own)
    default = {"name": setting.name, "value": setting.read(TopicSettings()), "source": _SOURCES[SettingSource.DEFAULT]}
    synonyms = [default]
    if source is not SettingSource.DEFAULT:
        synonyms.insert(0, {"name": setting.name, "value": value, "source": _SOURCES[source]})
    return {
        "name": setting.name,
        "value": value,
        "read_only": False,
        "is_default": source is not SettingSource.TOPIC,
        "config_source": _SOURCES[source],
        "is_sensitive": False,
        "synonyms": synonyms,
        "config_type": _LIST if setting.name == "cleanup.policy" else _KINDS.get(setting.kind, _STRING),
        "documentation": setting.description,
    }


def _broker_configs(context: Context) -> list[Reply]:
    options = context.broker.core.options
    values = {
        "auto.create.topics.enable": (
            str(options.auto_create_topics).lower(),
            bool,
            "Create a topic when a client asks for one that does not exist.",
        ),
        "broker.id": (str(options.node_id), int, "The number by which clients know this broker."),
        "num.partitions": (
            str(options.default_partitions),
            int,
            "How many partitions a new topic has unless asked otherwise.",
        ),
        "default.replication.factor": ("1", int, "How many replicas a new topic has: one, as there is one broker."),
        "fetch.max.bytes": (str(options.fetch_bytes_max), int, "The most bytes that a reply to a fetch holds."),
        "group.min.session.timeout.ms": (
            str(options.group_min_session_timeout_ms),
            int,
            "The shortest session.timeout.ms that a member of a classic group may ask for.",
        ),
        "group.max.session.timeout.ms": (
            str(options.group_max_session_timeout_ms),
            int,
            "The longest session.timeout.ms that a member of a classic group may ask for.",
        ),
        "listeners": (_listed(context.listeners), str, "The addresses that the broker listens on."),
        "advertised.listeners": (
            _listed(_advertised(context)),
            str,
            "The addresses that clients connect to.",
        ),
    }
    topic_defaults = {
        _BROKER_NAMES.get(name, name): (setting.read(options.topic_defaults), setting.kind, setting.description)
        for name, setting in TABLE.items()
    }
    return [
        {
            "name": name,
            "value": value,
            "read_only": True,
            "is_default": True,
            "config_source": _SOURCES[SettingSource.BROKER],
            "synonyms": [{"name": name, "value": value, "source": _SOURCES[SettingSource.BROKER]}],
            "config_type": _KINDS.get(kind, _STRING),
            "documentation": documentation,
        }
        for name, (value, kind, documentation) in (values | topic_defaults).items()
    ]


def _advertised(context: Context) -> Mapping[str, Address]:
    """Return the addresses of all listeners, on the host on which this client has reached the broker."""
    host, _ = context.reached_at
    return {name: (host, port) for name, (_, port) in context.listeners.items()} | {"kafka": context.reached_at}


def _listed(listeners: Mapping[str, Address]) -> str:
    shown = []
    for name, (host, port) in listeners.items():
        bracketed = f"[{host}]" if ":" in host else host
        shown.append(f"{LISTENER_NAMES.get(name, name.upper())}://{bracketed}:{port}")
    return ",".join(shown)


async def alter_configs_incrementally(context: Context, request: Request) -> Reply:
    """Change single settings of topics."""
    return await _alter(context, request, is_incremental=True)


async def alter_configs(context: Context, request: Request) -> Reply:
    """Replace all settings of topics; settings that are left out return to their defaults."""
    return await _alter(context, request, is_incremental=False)


async def _alter(context: Context, request: Request, *, is_incremental: bool) -> Reply:
    results = []
    for resource in request.resources or ():
        named = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        try:
            await _alter_one(context, resource, is_incremental=is_incremental, is_dry_run=request.validate_only)
            results.append({**error_fields(None), **named})
        except GoQueueError as error:
            results.append({**error_fields(error), **named})
    return {"responses": results}


async def _alter_one(context: Context, resource: Request, *, is_incremental: bool, is_dry_run: bool) -> None:
    if resource.resource_type != Resource.TOPIC:
        raise Invalid("only settings of topics can be changed here", hint="the broker's come from where it is started")
    changes = resource.configs or ()
    names = [change.name for change in changes]
    if len(names) != len(set(names)):
        raise Invalid("a setting is named twice in one request")

    def edit(opened: OpenTopic) -> Mapping[str, str]:
        if not is_incremental:
            return {change.name: change.value for change in changes if change.value is not None}
        config = dict(opened.topic.config)
        for change in changes:
            _apply(config, change, opened.settings)
        return config

    await alter_topic(context.broker.topics, context.caller, resource.resource_name, edit, is_dry_run=is_dry_run)


def _apply(config: dict[str, str], change: Request, settings: TopicSettings) -> None:
    setting = TABLE.get(change.name)
    if change.config_operation not in set(Change):
        raise Invalid(f"{change.config_operation} is no way to change a setting", hint="0 to 3")
    if change.config_operation == Change.DELETE:
        if setting is None:
            raise InvalidTopicSettings(unknown_setting(change.name))
        config.pop(change.name, None)
    elif change.value is None:
        raise InvalidTopicSettings(f"{change.name} was given no value")
    elif change.config_operation == Change.SET:
        config[change.name] = change.value
    elif setting is None or setting.name != "cleanup.policy":
        raise InvalidTopicSettings(f"{change.name} is no list, so nothing can be added or taken away")
    else:
        present = [each for each in setting.read(settings).split(",") if each]
        named = [each.strip() for each in change.value.split(",")]
        if change.config_operation == Change.APPEND:
            kept = present + [each for each in named if each not in present]
        else:
            kept = [each for each in present if each not in named]
        config[change.name] = ",".join(kept)


async def list_config_resources(context: Context, request: Request) -> Reply:
    """List the resources with settings: topics and this broker. Version 0 lists metrics that clients push: none."""
    # Without types, the request is about all of them.
    wanted = set(getattr(request, "resource_types", ()) or ()) or _CONFIGURABLE
    if not wanted <= _CONFIGURABLE:
        return {"error_code": _UNSUPPORTED_VERSION, "config_resources": []}
    if request.version == 0:
        return {"error_code": 0, "config_resources": []}
    names: Sequence[str] = ()
    if Resource.TOPIC in wanted:
        names = await list_topic_names(context.broker.topics, context.caller)
    found: list[Reply] = [{"resource_name": name, "resource_type": int(Resource.TOPIC)} for name in names]
    if Resource.BROKER in wanted:
        found.append({"resource_name": str(context.node_id), "resource_type": int(Resource.BROKER)})
    return {"error_code": 0, "config_resources": found}
