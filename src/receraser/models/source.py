"""The source of somebody's model, by its name "package.module:Object": found, digested, loaded.

Its source is part of what a model is: a state notes the SHA-256 of the file, and weights are only ever computed by the
source that they are said to be of. Nothing is imported but to fit: a store that names somebody's model opens,
recommends and is exported without running a line of it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from receraser.errors import ReceraserError, UsageError

__all__ = ["Source", "find", "is_foreign", "load", "told"]

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_foreign(name: str) -> bool:
    """Say whether a model's name is that of somebody's object.

    Examples
    --------
    >>> is_foreign("als:ALS"), is_foreign("wmf")
    (True, False)
    """
    return ":" in name


@dataclass(frozen=True)
class Source:
    """The file that an object's module is made of.

    Attributes
    ----------
    folder
        Where the module, or the package that it is in, was found: what must be on Python's path to import it.
    """

    path: Path
    folder: Path
    sha256: str


def find(name: str, folder: str | None = None) -> Source:
    """Find the source of an object: where Python looks for modules, then in the current folder. Nothing is run.

    `folder`: where to look before that.
    """
    module = _parts(name)[0]
    importlib.invalidate_caches()
    places: list[Sequence[str] | None] = [None, [str(Path.cwd())]]
    if folder is not None:
        places.insert(0, [folder])
    spec = next((found for place in places if (found := _spec(module, place)) is not None), None)
    if spec is None:
        raise UsageError(
            f"there is no module {module!r}, which the model {name} is in: not where Python looks, nor in "
            f"{Path.cwd()}; go to the folder of the file, or name it in PYTHONPATH"
        )
    path = Path(spec.origin or "").absolute()
    if not spec.has_location or path.suffix != ".py" or not path.is_file():
        raise UsageError(f"the module {module!r} of the model {name} is no Python source file; its source is digested")
    levels = module.count(".") + (1 if path.name == "__init__.py" else 0)
    return Source(path, path.parents[levels], hashlib.sha256(path.read_bytes()).hexdigest())


def _parts(name: str) -> tuple[str, str]:
    """Return the module and the object in it."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"the model {name!r}: expected one that comes with the package, or MODULE:OBJECT as in als:ALS"
        )
    module, _, attribute = name.partition(":")
    if module == "__main__":
        raise UsageError(
            f"the model {name} must be in a file of its own: workers import it, and your script is no module"
        )
    if module.partition(".")[0] in (*sys.stdlib_module_names, "receraser"):
        raise UsageError(
            f"the model {name}: {module!r} comes with Python or with this package, and is no model of yours"
        )
    return module, attribute


def _spec(module: str, place: Sequence[str] | None) -> ModuleSpec | None:
    """Find a module without importing anything, not even the packages it is in; None where it is not."""
    above, _, _ = module.rpartition(".")
    if above:
        package = _spec(above, place)
        if package is None or package.submodule_search_locations is None:
            return None
        place = list(package.submodule_search_locations)
    if place is not None:
        return PathFinder.find_spec(module, place)
    specs = (finder.find_spec(module, None) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)


class _AsItIs(SourceFileLoader):
    """Runs the source as it is in the file, never a compiled copy that may be of an earlier one; notes its SHA-256."""

    sha256 = ""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        data = self.get_data(self.path)
        self.sha256 = hashlib.sha256(data).hexdigest()
        code: CodeType = self.source_to_code(data, self.path)
        return code


def load(name: str, folder: str | None = None) -> tuple[object, str]:
    """Import somebody's object; return it and the SHA-256 of the source that was run, which is that of the file now."""
    module, attribute = _parts(name)
    source = find(name, folder)
    if str(source.folder) not in sys.path:
        sys.path.append(str(source.folder))  # for what the module imports; last, so that nothing is put in the shade
    loaded = sys.modules.get(module)
    loader = getattr(loaded, "__loader__", None)
    if not (isinstance(loader, _AsItIs) and (loader.path, loader.sha256) == (str(source.path), source.sha256)):
        with told(f"the module of the model {name} cannot be imported", UsageError):
            loaded = _imported(module, source.path)
        loader = getattr(loaded, "__loader__", None)
    assert isinstance(loader, _AsItIs)
    if not hasattr(loaded, attribute):
        raise UsageError(f"the module {module!r} ({source.path}) has no {attribute!r}")
    found: object = getattr(loaded, attribute)
    home = found if isinstance(found, type) or inspect.isfunction(found) else type(found)
    if home.__module__ != module:
        raise UsageError(
            f"{name} is made of {home.__module__}.{home.__name__}, whose source would not be digested; name it where "
            "it is defined"
        )
    return found, loader.sha256


def _imported(module: str, path: Path) -> ModuleType:
    """Import a module from a file, instead of one that is there."""
    above, _, own = module.rpartition(".")
    package = importlib.import_module(above) if above else None
    spec = spec_from_file_location(module, path, loader=_AsItIs(module, str(path)))
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    sys.modules[module] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[module]
        raise
    if package is not None:
        setattr(package, own, made)
    return made


@contextmanager
def told(what: str, kind: type[ReceraserError]) -> Iterator[None]:
    """Turn whatever goes wrong in somebody's code into an error of ours that says what and where."""
    try:
        yield
    except (ReceraserError, MemoryError):
        raise
    except Exception as error:
        ours = ("site-packages", "<frozen", "receraser/models/")
        frames = [one for one in traceback.extract_tb(error.__traceback__) if not any(o in one.filename for o in ours)]
        where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        raise kind(f"{what}: {type(error).__name__}: {error}{where}") from error
