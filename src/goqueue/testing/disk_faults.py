"""When an operation of a simulated disk fails.

Owns the rules by which operations are refused, the count of operations and the moment of power loss. Refuses
to know what an operation does: the disk asks before each one, and does itself what a fault leaves half done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from errno import EROFS
from pathlib import PurePath
from typing import Literal

from goqueue.testing.disk_names import os_error

Operation = Literal[
    "open",
    "read",
    "write",
    "truncate",
    "sync",
    "list",
    "make_directory",
    "rename",
    "remove",
    "sync_directory",
]
PathRule = str | Callable[[PurePath], bool]

_READING = frozenset({"open", "read", "list"})


class PowerLoss(BaseException):
    """The power is gone. Not an Exception, so that code which handles errors cannot handle this one."""


class DeadHandle(BaseException):
    """A file was used that was opened before its process died. Not an Exception: nothing may survive that."""


@dataclass(slots=True, eq=False)
class Fault:
    """A rule that makes operations fail; `hits` counts those that did."""

    errno: int
    operation: Operation
    path: PathRule | None
    after: int
    times: int | None
    hits: int = 0

    def strikes(self, operation: Operation, path: PurePath) -> bool:
        """Return whether this operation fails, and count it."""
        if operation != self.operation or not self._covers(path):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True

    def _covers(self, path: PurePath) -> bool:
        if self.path is None:
            return True
        return path.match(self.path) if isinstance(self.path, str) else self.path(path)


class Gate:
    """Decides before each operation whether it may happen, and after it whether the power is still on."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.is_read_only = False
        self.is_powered = True
        self.operations = 0
        self._power_loss_at: int | None = None

    def refusal(self, operation: Operation, path: PurePath) -> OSError | None:
        """Return the error of an operation that has to fail, without the name of its file."""
        self.check_power()
        for fault in self.faults:
            if fault.strikes(operation, path):
                return os_error(fault.errno)
        if self.is_read_only and operation not in _READING:
            return os_error(EROFS)
        return None

    def check_power(self) -> None:
        """Raise PowerLoss while the power is off."""
        if not self.is_powered:
            raise PowerLoss("the power is off: call crash() or kill() to go on")

    def admit(self, operation: Operation, path: PurePath, other: PurePath | None = None) -> None:
        """Raise the error of an operation on a name that has to fail."""
        error = self.refusal(operation, path)
        if error is not None:
            raise os_error(error.errno or 0, path, other)

    def count(self) -> None:
        """Count an operation that changes something; the fatal one raises PowerLoss."""
        self.operations += 1
        if self.operations == self._power_loss_at:
            self.is_powered = False
            raise PowerLoss(f"the power failed during operation {self.operations}")

    def lose_power_after(self, operations: int) -> None:
        """Arm the power loss: it happens during the `operations`-th counted operation from now."""
        if operations < 1:
            raise ValueError("the first operation that can lose its power is number 1")
        self._power_loss_at = self.operations + operations

    def heal(self) -> None:
        """Disarm everything."""
        self.faults.clear()
        self.is_read_only = False
        self._power_loss_at = None

    def power_on(self) -> None:
        """Let operations pass again, and disarm the power loss."""
        self.is_powered = True
        self._power_loss_at = None
