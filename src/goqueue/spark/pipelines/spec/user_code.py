"""Running a Python file of the user's, as a pipeline or for a function that a pipeline names.

Files beside it can be imported as if it was run by itself. None of these modules stays known by its name: functions are
then sent to executors whole, with the modules that they use, and not as the name of something that executors do not
have; and two pipelines may each have a `helpers.py`. An import inside of a function comes too late for that.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import goqueue

# While it runs a module is known by this name, which no import uses.
_MODULE_NAME = "__goqueue_pipeline__"


def run_file(path: Path) -> ModuleType:
    """Run a file and return it as a module; ImportError if it can be none, and whatever its code raises."""
    spec = spec_from_file_location(_MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = module_from_spec(spec)
    beside = path.resolve().parent
    known = set(sys.modules)
    sys.path.insert(0, str(beside))
    sys.modules[_MODULE_NAME] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(beside))
        for name in [_MODULE_NAME, *_modules_of(beside, set(sys.modules) - known)]:
            sys.modules.pop(name, None)
    return module


def _modules_of(directory: Path, names: set[str]) -> list[str]:
    """Return those modules whose files lie in a directory, or below it but in no installation of Python or GoQueue."""
    others = [Path(each).resolve() for each in (sys.prefix, sys.base_prefix)] + [Path(goqueue.__file__).parent]
    installed = [each for each in others if each.is_relative_to(directory)]
    found = []
    for name in names:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(directory) and not any(map(Path(file).is_relative_to, installed)):
            found.append(name)
    return found
