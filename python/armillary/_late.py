"""Names of a package that are loaded when they are first used, so that its import is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType


def attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of `package`: `homes` has the module of each name, empty for a module of
    the package. A name wins over a module of the same name, which an import would put there."""

    class Package(ModuleType):
        """The package, which keeps its names."""

        def __setattr__(self, name: str, value: object) -> None:
            if not (homes.get(name) and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    def found(name: str) -> object:
        """The object `name`, loaded now. Raises `AttributeError` for an unknown name."""
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{homes[name] or name}", package)
        made: object = getattr(module, name) if homes[name] else module
        setattr(sys.modules[package], name, made)
        return made

    sys.modules[package].__class__ = Package
    return found
