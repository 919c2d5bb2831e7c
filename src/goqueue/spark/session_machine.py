"""How much of this machine there is for Spark: cores and memory, as the limits of a container leave them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_GIB = 1024**3
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
# Rows are in Python and in files for the most part: more heap than this is needed by few jobs, and they can ask for it.
_HEAP_BYTES_MIN, _HEAP_BYTES_MAX = 1 * _GIB, 4 * _GIB


@dataclass(frozen=True, slots=True)
class Machine:
    """What a process may use here."""

    cores: int
    memory_bytes: int

    @property
    def heap_bytes(self) -> int:
        """The memory for Spark's Java: a quarter, since its Python workers and a broker may be here as well."""
        return min(max(self.memory_bytes // 4, _HEAP_BYTES_MIN), _HEAP_BYTES_MAX)


def this_machine() -> Machine:
    """Look at this machine."""
    is_bound = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if is_bound else os.cpu_count() or 1
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # "max" if there is no limit, and no such file outside of Linux.
    with suppress(OSError, ValueError):
        memory_bytes = min(memory_bytes, int(_CGROUP_LIMIT.read_text()))
    return Machine(cores, memory_bytes)
