"""Chance, as the core sees it: ids, jitter and shuffles all come from one injected source."""

from __future__ import annotations

import os
import secrets
from typing import Protocol
from uuid import UUID


class Entropy(Protocol):
    """A source of chance."""

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def below(self, end: int) -> int:
        """Return a whole number in [0, end)."""
        ...

    def token(self, size: int) -> bytes:
        """Return `size` unpredictable bytes."""
        ...

    def uuid(self) -> UUID:
        """Return a random (version 4) UUID."""
        ...


class SystemEntropy:
    """The operating system's source of chance, fit for secrets."""

    def fraction(self) -> float:
        return secrets.randbits(53) / (1 << 53)

    def below(self, end: int) -> int:
        return secrets.randbelow(end)

    def token(self, size: int) -> bytes:
        return os.urandom(size)

    def uuid(self) -> UUID:
        return UUID(bytes=self.token(16), version=4)
