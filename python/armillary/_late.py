"""Names of a package that are loaded when they are first used, so that its import is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of `package`: `homes` has the module of each name, or the name itself for a
    module of the package."""

    def found(name: str) -> object:
        """The object `name`, loaded now. Raises `AttributeError` for an unknown name."""
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{homes[name]}", package)
        made: object = module if name == homes[name] else getattr(module, name)
        setattr(sys.modules[package], name, made)
        return made

    return found
