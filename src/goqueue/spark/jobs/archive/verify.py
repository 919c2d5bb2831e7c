"""Checks an archive against its commits: no file is damaged, and every row is there once.

| checked of                 | what                                                                            |
|----------------------------|---------------------------------------------------------------------------------|
| each file                  | size, checksum, number of rows, topic, partition, first and last offset, order   |
| files whose offsets overlap | no offset is in two of them                                                     |
| each commit                | its checksum, and that snapshots are what the commits add up to                 |
| each partition             | rows lie in what is covered, and covered offsets and gaps do not overlap        |

It needs no broker. Files are read by tasks of Spark, a few at a time each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from goqueue.spark.archive.commits import check_commits, load
from goqueue.spark.archive.manifest import ArchivedFile, TopicArchive, not_archived
from goqueue.spark.archive.spans import OffsetSpan, missing, overlap
from goqueue.spark.archive.store import ArchiveStore, sha256_of
from goqueue.spark.jobs.archive.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASK_FILES: Final = 32

Cluster = tuple[ArchivedFile, ...]


class Verified(NamedTuple):
    """The totals of a check, and its findings."""

    files: int
    rows: int
    bytes: int
    commits: int
    findings: tuple[str, ...]


class Verification:
    """The check of one topic; raises if the archive does not have the topic."""

    def __init__(self, topic: str, path: str) -> None:
        store = ArchiveStore(path)
        state = load(store)
        if topic not in state.topics:
            raise not_archived(store.path, f"topic {topic!r}", state.topics)
        self._topic = topic
        self._path = store.path
        self._commits = state.number + 1
        self._archived = state.topics[topic]
        self._of_commits = tuple(check_commits(store, state))

    def run(self, session: SparkSession) -> Verified:
        """Read all files and compare them with the commits."""
        shares = shares_of(clusters_of(self._archived.files))
        found = run_tasks(session, partial(_check, self._path, self._topic, shares), len(shares), list[str])
        files = self._archived.files
        return Verified(
            len(files),
            sum(file.rows for file in files),
            sum(file.bytes for file in files),
            self._commits,
            (*self._of_commits, *check_ranges(self._archived), *(line for lines in found for line in lines)),
        )


def check_ranges(archived: TopicArchive) -> Iterator[str]:
    """Yield what is wrong with a state, without reading files."""
    for partition, spans in archived.covered.items():
        if twice := overlap(spans, archived.gaps.get(partition, ())):
            yield f"partition {partition}: offsets from {twice[0].start} on are both archived and noted as missing"
    for file in archived.files:
        if missing(archived.covered.get(file.partition, ()), OffsetSpan(file.first, file.last + 1)):
            yield f"{file.path}: not all of its offsets, {file.first} to {file.last}, are covered"


def clusters_of(files: Sequence[ArchivedFile]) -> list[Cluster]:
    """Group files whose offsets overlap; most groups have one file."""
    clusters: list[list[ArchivedFile]] = []
    end = -1
    for _, among in groupby(sorted(files, key=lambda file: (file.partition, file.first)), lambda file: file.partition):
        end = -1
        for file in among:
            if file.first > end:
                clusters.append([])
            clusters[-1].append(file)
            end = max(end, file.last)
    return [tuple(cluster) for cluster in clusters]


def shares_of(clusters: Sequence[Cluster]) -> tuple[tuple[Cluster, ...], ...]:
    """Distribute the files to tasks."""
    shares: list[list[Cluster]] = []
    size = _TASK_FILES
    for cluster in clusters:
        if size >= _TASK_FILES:
            shares.append([])
            size = 0
        shares[-1].append(cluster)
        size += len(cluster)
    return tuple(tuple(share) for share in shares)


def _check(path: str, topic: str, shares: Sequence[Sequence[Cluster]], number: int) -> list[str]:
    store = ArchiveStore(path)
    return [line for cluster in shares[number] for line in check_cluster(store, topic, cluster)]


def check_cluster(store: ArchiveStore, topic: str, cluster: Cluster) -> Iterator[str]:
    """Yield what is wrong with files whose offset ranges overlap."""
    seen: list[np.ndarray] = []
    for file in cluster:
        offsets, finding = _offsets(store, topic, file)
        if finding:
            yield f"{file.path}: {finding}"
        if offsets is not None:
            seen.append(offsets)
    if len(seen) > 1:
        unique, counts = np.unique(np.concatenate(seen), return_counts=True)
        if twice := unique[counts > 1].tolist():
            yield f"partition {cluster[0].partition}: {len(twice)} offsets are there twice, the first is {twice[0]}"


def _offsets(store: ArchiveStore, topic: str, file: ArchivedFile) -> tuple[np.ndarray | None, str]:
    """Return the offsets in a file, if readable, and what is wrong with it."""
    try:
        raw = store.read(file.path)
    except FileNotFoundError:
        return None, "is not there"
    if len(raw) != file.bytes:
        return None, f"has {len(raw)} bytes, and was written with {file.bytes}"
    if sha256_of(raw) != file.sha256:
        return None, "is damaged: its checksum is not the one that it was written with"
    rows = parquet.ParquetFile(pa.BufferReader(raw)).read(columns=["topic", "partition", "offset"])
    offsets = rows["offset"].to_numpy()
    ends = (len(offsets), int(offsets[0]) if len(offsets) else None, int(offsets[-1]) if len(offsets) else None)
    if ends != (file.rows, file.first, file.last):
        return offsets, f"holds {ends[0]} rows, offsets {ends[1]} to {ends[2]}, and not {file.rows} as the commit says"
    if not (np.diff(offsets) > 0).all():
        return offsets, "is not in the order of offsets"
    if rows["topic"].unique().to_pylist() != [topic] or rows["partition"].unique().to_pylist() != [file.partition]:
        return offsets, f"holds rows of others than partition {file.partition} of topic {topic!r}"
    return offsets, ""
