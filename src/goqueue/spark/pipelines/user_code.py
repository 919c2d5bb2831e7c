"""Running a Python file of the user's, as a pipeline or for a function that a pipeline names."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

USUAL_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What the code of users raises, short of what ends a process."""

# While it runs a module is known by this name, which no import uses. Behind that it is not known at all, so that its
# functions are sent to executors whole, and not as the name of a module that executors do not have.
_MODULE_NAME = "__goqueue_pipeline__"


def run_file(path: Path) -> ModuleType:
    """Run a file and return it as a module; ImportError if it can be none, and whatever its code raises."""
    spec = spec_from_file_location(_MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
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
