"""The names of a log's files."""

from __future__ import annotations

import re
from pathlib import PurePath

LOG = ".log"
INDEX = ".index"
TEMPORARY = ".tmp"
CLEANED = ".cleaned"
SWAP = ".swap"
CHECKPOINT = "checkpoint"

_OURS = re.compile(r"^(\d{20})(\.log|\.index)(\.tmp|\.cleaned|\.swap)?$")


def segment_path(directory: PurePath, base_offset: int) -> PurePath:
    """Return the path of the segment that starts at an offset."""
    return directory / f"{base_offset:020d}{LOG}"


def index_path(segment: PurePath) -> PurePath:
    """Return the path of a segment's index: the same name with `.index` for `.log`, any later suffix kept."""
    return segment.with_name(segment.name.replace(LOG, INDEX, 1))


def parse(name: str) -> tuple[int, str, str] | None:
    """Split a file name into base offset, kind and stage; None if the file is none of ours."""
    match = _OURS.match(name)
    return (int(match[1]), match[2], match[3] or "") if match else None
