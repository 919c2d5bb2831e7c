"""The files of the repository that are kept, read once."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]


@cache
def texts() -> dict[PurePosixPath, str]:
    """Read every file that is kept, by its path from the root; files that are not text are left out."""
    ignored = [".git", *(line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split())]
    found = {}
    for file in sorted(kept_files(ROOT, ignored)):
        try:
            found[PurePosixPath(file.relative_to(ROOT))] = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue
    return found


def kept_files(directory: Path, ignored: list[str]) -> Iterator[Path]:
    for entry in directory.iterdir():
        if any(fnmatch(entry.name, pattern) for pattern in ignored):
            continue
        if entry.is_dir():
            yield from kept_files(entry, ignored)
        elif entry.is_file():
            yield entry
