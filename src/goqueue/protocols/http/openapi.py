"""The OpenAPI 3.1 document of the HTTP interface, made from the registry of routes and the shapes in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec

from goqueue import __version__
from goqueue.api.fields import GROUP_SCHEMA, NAME_SCHEMA
from goqueue.api.problems import Problem
from goqueue.api.transactions import NOT_EMPTY_SCHEMA
from goqueue.errors import GoQueueError
from goqueue.machines.runs.values import JOB_ID, PIPELINE_NAME
from goqueue.model.sinks import SINK_NAME
from goqueue.model.topic_settings import TABLE as SETTINGS
from goqueue.protocols.faults import TABLE, UNEXPECTED
from goqueue.protocols.http.calls import JSON
from goqueue.protocols.http.route import Route
from goqueue.protocols.http.routes import PREFIX, ROUTES, errors_of
from goqueue.protocols.http.wire.problems import INTERNAL_ERROR, MEDIA_TYPE

Json = dict[str, Any]

_REFERENCE = "#/components/schemas/{name}"
_PATH_PARAMETERS: dict[str, Json] = {
    "topic": {"description": "The name of a topic.", "schema": {"type": "string", **NAME_SCHEMA}},
    "partition": {
        "description": "The number of a partition, from 0 on.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    },
    "group": {"description": "The name of a group.", "schema": {"type": "string", **GROUP_SCHEMA}},
    "producer_id": {
        "description": "The id of a producer, from `/producers/init`.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    },
    "id": {"description": "A transactional id.", "schema": {"type": "string", **NOT_EMPTY_SCHEMA}},
    "sink": {"description": "The name of a sink.", "schema": {"type": "string", "pattern": f"^{SINK_NAME}$"}},
    "redrive": {"description": "The id of a redrive.", "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"}},
    "pipeline": {
        "description": "The name of a pipeline.",
        "schema": {"type": "string", "pattern": f"^{PIPELINE_NAME}$"},
    },
    "job": {"description": "The id of a run of a job.", "schema": {"type": "string", "pattern": f"^{JOB_ID}$"}},
}
# Two fields of which at most one may be present. A class cannot express this.
_EITHER_OR = {"MessageToPublish": ("key", "value"), "NewHeader": ("value",), "RedriveRequest": ("key",)}

# Fields that need each other, and fields that are present exactly if another one has their name as its value.
_TOGETHER = {"OffsetsToCommit": ("member_id", "generation")}
_ONLY_WITH = {"OffsetsReset": ("to", ("offset", "time", "group"))}

# Fields of which exactly one is present.
_ONE_OF = {
    "ReceiveRequest": ("topic", "topics"),
    "SeekRequest": ("to", "offset", "time"),
    **dict.fromkeys(("Ack", "Nack", "Reject", "Extension"), ("receipt_handle", "receipt_handles")),
}

# The shapes with settings of topics, and which types their values may have besides.
_CONFIGS: dict[str, Sequence[str]] = {"NewTopic": (), "TopicChange": ("null",)}


@cache
def document() -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(description())


def description() -> Json:
    """Return the document as Python values."""
    shapes = [shape for route in ROUTES for shape in (route.request, route.reply) if shape is not None]
    _, components = msgspec.json.schema_components([*dict.fromkeys(shapes), Problem], ref_template=_REFERENCE)
    for name, fields in _EITHER_OR.items():
        components[name]["allOf"] = [{"not": {"required": [field, f"{field}_base64"]}} for field in fields]
    for name, pair in _TOGETHER.items():
        components[name]["dependentRequired"] = {field: list(pair) for field in pair}
    for name, (chooser, fields) in _ONLY_WITH.items():
        components[name]["anyOf"] = _choices(chooser, fields)
    for name, fields in _ONE_OF.items():
        components[name]["oneOf"] = [{"required": [field]} for field in fields]
    for name, types in _CONFIGS.items():
        components[name]["properties"]["config"] |= {"properties": _settings(types), "additionalProperties": False}
    paths: Json = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _described(route, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GoQueue",
            "version": __version__,
            "description": f"Every path is also available below {PREFIX}. Errors are problem documents (RFC 9457).",
        },
        "servers": [{"url": "/"}, {"url": PREFIX}],
        "paths": paths,
        "components": {"schemas": {name: shape for name, shape in components.items() if not name.endswith("Query")}},
    }


def _choices(chooser: str, fields: Sequence[str]) -> list[Json]:
    def without(others: Sequence[str]) -> Json:
        return {"not": {"anyOf": [{"required": [field]} for field in others]}}

    named = [
        {
            "properties": {chooser: {"const": chosen}},
            "required": [chosen],
            **without([field for field in fields if field != chosen]),
        }
        for chosen in fields
    ]
    return [*named, {"properties": {chooser: {"not": {"enum": list(fields)}}}, **without(fields)}]


def _settings(other_types: Sequence[str]) -> Json:
    kinds = {int: "integer", float: "number"}
    return {
        setting.name: {
            "description": setting.description,
            "type": ["string", *([kinds[setting.kind]] if setting.kind in kinds else []), *other_types],
        }
        for setting in SETTINGS.values()
    }


def _described(route: Route, components: Json) -> Json:
    told: Json = {
        "operationId": route.name,
        "summary": route.summary,
        **({"description": route.description} if route.description else {}),
        "tags": [route.tag],
        "responses": _responses(route),
    }
    names = re.findall(r"{(\w+)}", route.path)
    parameters = [{"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]} for name in names]
    if route.request is not None and route.has_body:
        content = {JSON: {"schema": _reference(route.request)}}
        told["requestBody"] = {"required": True, "content": content}
    elif route.request is not None:
        parameters += _query_parameters(components[route.request.__name__])
    if parameters:
        told["parameters"] = parameters
    return told


def _query_parameters(shape: Json) -> list[Json]:
    required = shape.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": schema.get("description", ""),
            "schema": {key: value for key, value in schema.items() if key != "description"},
        }
        for name, schema in shape["properties"].items()
    ]


def _responses(route: Route) -> Json:
    responses: Json = {}
    for status in (route.status, *route.other_statuses):
        response: Json = {"description": route.summary if status == route.status else "See the body."}
        if route.status != 204:
            schema = {} if route.reply is None else {"schema": _reference(route.reply)}
            response["content"] = {route.media_type: schema}
        responses[str(status)] = response
    for status, codes in _codes_by_status(errors_of(route)).items():
        response = responses.setdefault(str(status), {"description": "", "content": {}})
        response["description"] = "\n".join(codes)
        response["content"][MEDIA_TYPE] = {"schema": _reference(Problem)}
    return responses


def _codes_by_status(errors: Sequence[type[GoQueueError]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for error in errors:
        found.setdefault(TABLE[error.code].http, []).append(f"{error.code}: {first_line(error)}")
    found.setdefault(UNEXPECTED.http, []).append(f"{INTERNAL_ERROR}: The broker met an unexpected error.")
    return dict(sorted(found.items()))


def first_line(documented: type) -> str:
    """Return the first line of a docstring."""
    return cleandoc(documented.__doc__ or "").partition("\n")[0]


def _reference(shape: type[msgspec.Struct]) -> Json:
    return {"$ref": _REFERENCE.format(name=shape.__name__)}
