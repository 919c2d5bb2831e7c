"""Functions by name: `transforms.py:clean` is loaded from its file, `package.module:clean` is imported.

What comes from a file is sent to executors by value, since they have no such module: a module that is not known to
Python when one of its functions is pickled is pickled with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from goqueue.errors import Invalid, NotFound
from goqueue.spark.pipelines.model import PythonFunction

_MODULE_NAME = "__goqueue_functions__"


def function_of(named: PythonFunction) -> Callable[..., Any]:
    """Return a function, loaded if it is only known by name; what its module raises is raised."""
    if named.function is not None:
        return named.function
    where, _, name = named.reference.rpartition(":")
    module = _from_file(Path(where)) if where.endswith(".py") else import_module(where)
    function = getattr(module, name, None)
    if not callable(function):
        raise Invalid(f"{named.reference} is no function", hint="name something in that module that can be called")
    return function  # type: ignore[no-any-return]


def _from_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(_MODULE_NAME, path)
    if spec is None or spec.loader is None or not path.exists():
        raise NotFound(f"there is no file {path}")
    module = module_from_spec(spec)
    # As if the file was run by itself: what lies beside it can be imported.
    beside = str(path.resolve().parent)
    sys.path.insert(0, beside)
    sys.modules[_MODULE_NAME] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[_MODULE_NAME]
        sys.path.remove(beside)
    return module
