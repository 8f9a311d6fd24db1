"""Measured steps of a job, read from a file:

    steps:
    - layout: {tp: 4, pp: 2, zero: 1}     # options of the workload
      step: 8.9 s
    - launch: run.sh                      # or flags, as armillary workload --from reads them
      log: train.log                      # and the lines that the framework printed

Paths are relative to the file. Not here: what follows from the steps (`measured.py`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from .. import launch, training_log
from ..declared import Allowed, Seconds, Within, open_source, read
from ..errors import InputError, Problem
from ..model.files import Model

MOST = 16
"""Steps of a file."""
_LONGEST = 1e6


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A layout, and how long its step took."""

    options: Mapping[str, object]
    """Options of the model's workload that make it."""
    step_s: float
    place: str = ""
    """Where it was read."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    layout: Annotated[Mapping[str, object] | None, Allowed("options of the model")] = None
    launch: str | None = None
    step: Seconds | None = None
    log: str | None = None


@dataclass(frozen=True, slots=True)
class _File:
    steps: Annotated[tuple[_Step, ...], Within(1, MOST), Allowed(f"1 to {MOST} steps")]


def read_steps(path: str | os.PathLike[str], model: Model, ranks: int) -> list[MeasuredStep]:
    """The steps of a file. Raises `InputError` with every problem."""
    name = os.fspath(path)
    source = open_source(name, "a file of measured steps")
    found = read(_File, source)
    source.finish()
    assert found is not None
    problems: list[Problem] = []
    steps = []
    for number, each in enumerate(found.steps):
        try:
            steps.append(_step(each, name, f"steps[{number}]", model, ranks))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return steps


def _step(each: _Step, file: str, place: str, model: Model, ranks: int) -> MeasuredStep:
    if (each.layout is None) == (each.launch is None):
        said = "needs either layout or launch"
        raise InputError([Problem(file, place, said, "layout: {tp: 4}, or launch: run.sh")])
    if (each.step is None) == (each.log is None):
        said = "needs either step or log"
        raise InputError([Problem(file, place, said, "step: 8.9 s, or log: train.log")])
    folder = Path(file).parent
    log = None if each.log is None else training_log.read(folder / each.log)
    seconds = each.step if log is None else log.median_s()
    assert seconds is not None
    if not 0 < seconds <= _LONGEST:
        said = f"a step of {seconds:g} s"
        raise InputError([Problem(file, place, said, f"above 0, up to {_LONGEST:,.0f} s")])
    if each.launch is None:
        return MeasuredStep(dict(each.layout or {}), seconds, f"{file}: {place}")
    launched = launch.read(folder / each.launch, model=model, ranks=ranks)
    return MeasuredStep(launched.options, seconds, f"{file}: {place}", launched.notes)
