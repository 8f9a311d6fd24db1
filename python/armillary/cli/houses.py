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
    distribution: str
    """The name to install."""
    folder: str
    """The folder of a clone that has it."""

    def is_installed(self) -> bool:
        """Whether the package can be imported."""
        return importlib.util.find_spec(self.package) is not None

    def absent(self, verb: str) -> Callable[[typer.Context], None]:
        """The verb where the package is absent: it takes any arguments and raises `InputError`."""

        def needs_package(context: typer.Context) -> None:
            with output.guard():
                said = f"this verb needs the package {self.distribution}, which is not installed"
                help_ = (
                    f"pip install {self.distribution}, or pip install ./{self.folder} in a clone"
                )
                raise InputError([Problem("", f"armillary {verb}", said, help_)])

        needs_package.__doc__ = self.needed()
        return needs_package

    def needed(self) -> str:
        """The help of its verbs where the package is absent."""
        return f"Needs the package {self.distribution}."


ANY_ARGUMENTS: dict[str, Any] = {
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True}
}
"""How typer reads a verb whose package is absent."""

TRAIN = House("armillary_train", "armillary-train", "train")
LAB = House("armillary_lab", "armillary-lab", "lab")

HOMES: dict[str, House] = {
    **dict.fromkeys(("train", "ingest", "checkpoint", "bench"), TRAIN),
    "study": LAB,
}
"""The house of each verb that the simulator does not have itself."""
