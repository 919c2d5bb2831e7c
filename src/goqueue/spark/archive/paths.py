"""Normal form of archive paths: each directory has one path, which pyarrow can open."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from goqueue.errors import Invalid
from goqueue.model.units import quoted

_FILE: Final = "file:"
# # Schemes of Spark, and those of pyarrow for the same file systems.
_SCHEMES: Final = {"s3a://": "s3://", "s3n://": "s3://"}
# A directory may have a colon in its name; one that begins like this is a URI of which a slash was forgotten.
_ALMOST_URI: Final = re.compile(r"(s3[an]?|gs|gcs|hdfs|viewfs|abfss?|wasbs?|https?):(?!//)", re.IGNORECASE)


def known_scheme(path: str) -> str:
    """Return a path with the scheme that pyarrow knows, where Spark has another name for it."""
    for theirs, ours in _SCHEMES.items():
        if path.startswith(theirs):
            return ours + path.removeprefix(theirs)
    return path


def require_whole_uri(path: str) -> None:
    """Raise Invalid for a URI with a missing slash, which would be a local directory."""
    if found := _ALMOST_URI.match(path):
        rest = path[found.end() :].lstrip("/")
        raise Invalid(f"{quoted(path)} is no URI", hint=f"write two slashes: {found[0]}//{rest}")


def normal_path(written: str) -> str:
    """Return a path in its normal form: absolute or a URI, without a slash at the end."""
    text = written.strip()
    if not text:
        raise Invalid("the path of an archive is empty", hint="name a directory, or a URI such as s3://bucket/archive")
    require_whole_uri(text)
    if text.startswith(_FILE):
        text = _local(text)
    elif "://" in text:
        return known_scheme(text).rstrip("/")
    # # As in shells, `..` removes the name before it, even if that is a link.
    return os.path.normpath(Path(text).expanduser().absolute())


def _local(uri: str) -> str:
    path = uri.removeprefix(_FILE)
    if path.startswith("//"):
        host, slash, path = path.removeprefix("//").partition("/")
        path = slash + path if host in ("", "localhost") else ""
    if not path.startswith("/"):
        raise Invalid(
            f"{quoted(uri)} names no absolute path", hint="write file:///data/archive, or the path alone: /data/archive"
        )
    return "/" + unquote(path).lstrip("/")
