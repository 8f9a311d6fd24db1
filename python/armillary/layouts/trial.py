"""Simulation of one layout, where it takes less than minutes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from ..api import simulate
from ..model.files import Model
from ..platform import Platform
from ..result import Result
from ..workload import build


def trial(
    model: Model, options: Mapping[str, object], target: Platform, backend: str | None
) -> Result | None:
    """The run of a layout; none where that would take minutes. Raises `InputError` for options that
    make no layout."""
    made = build(model, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="this run simulates")
        try:
            return simulate(made, target, backend=backend)
        except UserWarning:
            return None
