"""Modules that moved to other packages, under their old names for one release.

Here: the finder that serves them. An import of an old name warns and gives the module of today;
`python -m` with an old name runs it. Not here: the table (`old_modules.py`)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, cast

from .old_modules import MODULES, PACKAGES

if TYPE_CHECKING:
    from importlib.abc import Loader


def today(name: str) -> str | None:
    """The name of today of a module, empty where nothing but its parts is left. `None` for one that
    did not move."""
    outer, _, below = name.partition(".")
    if outer != "armillary" or not below:
        return None
    if below in MODULES:
        return MODULES[below]
    package, _, part = below.rpartition(".")
    return f"{MODULES[package]}.{part}" if package in PACKAGES and MODULES[package] else None


class OldNames:
    """Finds and loads modules by their old names. Its bases are not those of `importlib.abc`, whose
    import would make every start slower."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The place of a module that moved, which is here; `None` for every other module."""
        if today(fullname) is None:
            return None
        return spec_from_loader(
            fullname, cast("Loader", self), is_package=self.is_package(fullname)
        )

    def is_package(self, fullname: str) -> bool:
        """Whether an old name is that of a package."""
        return fullname.removeprefix("armillary.") in PACKAGES

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """`None`: a module as any other, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of today into the place of the old one."""
        name = module.__name__
        new = today(name)
        if new:
            import warnings

            warnings.warn(f"{name} is now {new}", DeprecationWarning, stacklevel=2)
            sys.modules[name] = _loaded(name, new)

    def get_code(self, fullname: str) -> CodeType:
        """The program that `python -m` runs."""
        text = f"from armillary import _moved\n_moved.run({fullname!r})\n"
        return compile(text, f"<{fullname}>", "exec")


def run(name: str) -> None:
    """Runs the module of today as a program. Ends with 2 where its package is not installed."""
    import runpy

    new = today(name) or ""
    command = new.removesuffix(".__main__")
    sys.stderr.write(
        f"warning: python -m {name.removesuffix('.__main__')} is now python -m {command}\n"
    )
    try:
        _loaded(name, new.partition(".")[0])
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"error: {missing}\n")
        raise SystemExit(2) from None
    runpy.run_module(new, None, "__main__", alter_sys=True)


def _loaded(name: str, new: str) -> ModuleType:
    """A module of today. Raises `ModuleNotFoundError` with a way out where its package is not
    installed."""
    try:
        return importlib.import_module(new)
    except ModuleNotFoundError as missing:
        package = new.partition(".")[0]
        if missing.name != package:
            raise
        text = f"{name} is now in the package {package.replace('_', '-')}, which is not installed"
        raise ModuleNotFoundError(text, name=name) from None


def serve() -> None:
    """Lets imports find old names."""
    if not any(isinstance(each, OldNames) for each in sys.meta_path):
        sys.meta_path.insert(0, OldNames())
