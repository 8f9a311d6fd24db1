"""The files of ASTRA-sim 1.0, a network and a system, as a platform file.

The core reads them (`crates/platform/src/config/astra_sim/one`), because `armillary astra-sim` runs
them too."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .. import _core
from .platform import Platform


@dataclass(frozen=True, slots=True)
class Converted:
    """A platform file made of others."""

    text: str
    platform: Platform
    warnings: tuple[str, ...]
    """Keys without effect, and what the files lack."""


def from_astra_sim(network: str | os.PathLike[str], system: str | os.PathLike[str]) -> Converted:
    """Makes a platform file of a network file (Garnet's or the analytical backend's) and a system
    file of ASTRA-sim 1.0. Raises `InputError` listing every problem of both."""
    file = os.fspath(network)
    text, warnings = _core.astra_sim_1(file, os.fspath(system))
    return Converted(text, Platform.parse(text, file), tuple(warnings))
