"""The clients under test, each behind the interfaces of `contract`: one file per library and interface."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # kafka-python loads its schemas, all at its import, by functions that Python has deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka.admin  # type: ignore[import-untyped]  # noqa: F401
