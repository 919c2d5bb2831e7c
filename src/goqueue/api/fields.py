"""Fields that the requests of several nouns have: names, numbers, times and durations, with their bounds."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from goqueue.model.queue_settings import DELAY_MS_MAX, VISIBILITY_MS_MAX
from goqueue.model.topic import NAME_MAX

NAME_PATTERN = "^[a-zA-Z0-9._-]+$"
NAME_SCHEMA = {"pattern": NAME_PATTERN, "minLength": 1, "maxLength": NAME_MAX}

TIMESTAMP_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999, the end of ISO 8601 dates."""
WAIT_MS_MAX = 60_000
PARTITION_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1
WAIT_PATTERN = "^(([0-9]{1,4}|[1-5][0-9]{4}|60000)(ms)?|([0-5]?[0-9]|60)s|[01]m)$"
BYTES_PATTERN = "^[0-9]{1,12}([KMkm]i?[Bb])?$"
Milliseconds = Annotated[
    int, Meta(description="Milliseconds since 1970.", extra_json_schema={"minimum": 0, "maximum": TIMESTAMP_MAX})
]
Moment = Annotated[
    str, Meta(description="ISO 8601 with an offset from UTC.", extra_json_schema={"format": "date-time"})
]
BASE64_PATTERN = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
Base64Bytes = Annotated[bytes, Meta(description="Bytes, as base64.", extra_json_schema={"pattern": BASE64_PATTERN})]

_DURATION_PATTERN = "^[0-9]{1,12}(ms|s|m|h|d)?$"
_Duration = Annotated[
    str, Meta(description="Such as 500ms, 30s, 5m, 1h.", extra_json_schema={"pattern": _DURATION_PATTERN})
]
Delay = (
    _Duration
    | Annotated[int, Meta(description="Milliseconds.", extra_json_schema={"minimum": 0, "maximum": DELAY_MS_MAX})]
)
"""How long a message waits, up to 7 days."""
Visibility = (
    _Duration
    | Annotated[int, Meta(description="Milliseconds.", extra_json_schema={"minimum": 0, "maximum": VISIBILITY_MS_MAX})]
)
"""How long a lease lasts, up to 12 hours."""
LastingVisibility = (
    _Duration
    | Annotated[int, Meta(description="Milliseconds.", extra_json_schema={"minimum": 1, "maximum": VISIBILITY_MS_MAX})]
)
"""The same, but not zero."""
Wait = (
    Annotated[
        str,
        Meta(
            description="How long to wait for a message, up to 60s.", extra_json_schema={"pattern": _DURATION_PATTERN}
        ),
    ]
    | Annotated[int, Meta(description="Milliseconds.", extra_json_schema={"minimum": 0, "maximum": WAIT_MS_MAX})]
)
"""How long a request may wait, up to a minute."""

GROUP_NAME_MAX = 250

REQUEST_PARTITIONS_MAX = 100_000
"""How many partitions a request may name."""
GROUP_SCHEMA = {"minLength": 1, "maxLength": GROUP_NAME_MAX}
# The schemas only describe these; the operations check them, with better errors.
GroupName = Annotated[str, Meta(description="The name of a group.", extra_json_schema=GROUP_SCHEMA)]
TopicName = Annotated[str, Meta(description="The name of a topic.", extra_json_schema=NAME_SCHEMA)]
PartitionIndex = Annotated[int, Meta(ge=0, le=PARTITION_MAX, description="The number of a partition, from 0 on.")]
Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]
MemberId = Annotated[str, Meta(min_length=1, max_length=300, description="The id of a member.")]
Generation = Annotated[
    int, Meta(ge=1, le=2**31 - 1, description="The last generation that the member received; others are refused.")
]
Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]

BoundedTopicName = Annotated[str, Meta(min_length=1, max_length=249)]
