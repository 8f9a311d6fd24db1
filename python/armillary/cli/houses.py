"""Verbs that other packages bring: the trainer and the laboratory.

The list is fixed, because a search for installed packages would make every start slower. Where a
package is absent, its verbs are listed all the same, and say how to install it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer

from ..errors import InputError, Problem
from . import output


@dataclass(frozen=True)
class House:
    """A package that has verbs of its own."""

    package: str
    """The name to import."""
    extension: str
    """The module of the package that is written in Rust."""
    distribution: str
    """The name to install."""
    folder: str
    """The folder of a clone that has it."""
    target: str
    """The target of a clone's Makefile that builds it."""

    def is_installed(self) -> bool:
        """Whether the package can be imported, with its part in Rust."""
        return self._has(self.package) and self._has(f"{self.package}.{self.extension}")

    def _has(self, module: str) -> bool:
        return importlib.util.find_spec(module) is not None

    def _problem(self, verb: str) -> Problem:
        """The missing package, or its missing part, and how to get it."""
        if self._has(self.package):
            said = f"this verb needs {self.package}.{self.extension}, which is not built"
            help_ = f"make {self.target} in a clone"
        else:
            said = f"this verb needs the package {self.distribution}, which is not installed"
            help_ = f"pip install {self.distribution}, or pip install ./{self.folder} in a clone"
        return Problem("", f"armillary {verb}", said, help_)

    def absent(self, verb: str) -> Callable[[typer.Context], None]:
        """The verb where the package is absent: it takes any arguments and raises `InputError`."""

        def needs_package(context: typer.Context) -> None:
            with output.guard():
                raise InputError([self._problem(verb)])

        needs_package.__doc__ = self.needed()
        return needs_package

    def needed(self) -> str:
        """The help of its verbs where the package is absent."""
        return f"Needs the package {self.distribution}."


ANY_ARGUMENTS: dict[str, Any] = {
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True}
}
"""How typer reads a verb whose package is absent."""

TRAIN = House("armillary_train", "_train", "armillary-train", "train", "trainer")
LAB = House("armillary_lab", "_peers", "armillary-lab", "lab", "lab")

HOMES: dict[str, House] = {
    **dict.fromkeys(("train", "ingest", "checkpoint", "bench"), TRAIN),
    "study": LAB,
}
"""The house of each verb that the simulator does not have itself."""
