"""The messages of kafka-python that tests compare with: a second judge, which has its own copy of the definitions."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # It loads its schemas, all at its import, by functions that Python has deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.protocol import admin, consumer, metadata, producer  # type: ignore[import-untyped]

__all__ = ["admin", "consumer", "metadata", "producer"]
