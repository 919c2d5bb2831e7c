"""Graphs of names and the names that they read. Pure.

`Reads` has every name as a key, with the names that it reads. Names that are no keys are left out of account. All
orders are stable: where the graph does not decide, that of the mapping does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Reads = Mapping[str, Sequence[str]]


def in_order(reads: Reads) -> list[str]:
    """Return the names so that each comes after its inputs; names in or after a circle are left out."""
    waits = {name: {read for read in inputs if read in reads} for name, inputs in reads.items()}
    ordered: list[str] = []
    while ready := [name for name, inputs in waits.items() if not inputs]:
        # One at a time: what can go on is shown near what it reads, as far as the order of the file allows.
        name = ready[0]
        del waits[name]
        ordered.append(name)
        for inputs in waits.values():
            inputs.discard(name)
    return ordered


def circles(reads: Reads) -> list[list[str]]:
    """Return circles of names, each of which reads the next and the last the first; no name is in two of them."""
    found: list[list[str]] = []
    done: set[str] = set()
    for start in reads:
        path: list[str] = []
        _walk(reads, start, path, done, found)
    return found


def _walk(reads: Reads, start: str, path: list[str], done: set[str], found: list[list[str]]) -> None:
    """Follow the inputs depth first, without recursion, since chains may be long."""
    pending = [(start, iter(reads[start]))]
    if start in done:
        return
    path.append(start)
    while pending:
        name, inputs = pending[-1]
        following = next((read for read in inputs if read in reads and read not in done), None)
        if following is None:
            done.add(name)
            path.pop()
            pending.pop()
        elif following in path:
            circle = path[path.index(following) :]
            if not any(set(circle) & set(other) for other in found):
                found.append(circle)
        else:
            path.append(following)
            pending.append((following, iter(reads[following])))


def upstream(reads: Reads, names: Sequence[str]) -> set[str]:
    """Return the names and everything that they read, directly or not."""
    found: set[str] = set()
    pending = [name for name in names if name in reads]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [read for read in reads[name] if read in reads]
    return found
