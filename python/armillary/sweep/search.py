"""Points that Optuna proposes from the results of earlier ones.

Points are asked for in batches of a fixed size (`search.batch`), and results are reported in order.
So the same study asks for the same points with any number of workers. A resumed study asks again
and takes results from the journal. Optuna's TPE sampler, seeded by the study. A point that
constraints refuse is reported as failed and asked for again. A point that doesn't fit in memory is
reported as violating a constraint, by the share of memory that it lacks: Optuna prefers points that
fit."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

from ..errors import InputError, Problem
from . import domain
from .points import Point, Values, admits
from .runner import Finished
from .study import SweepStudy

_TRIES = 1000
_LACKING = "lacking"
_BATCH = 8
"""Points that are asked for at once, where the study does not say."""


def _optuna() -> ModuleType:
    try:
        return importlib.import_module("optuna")
    except ImportError:
        help_ = "pip install 'armillary[sweep]', or search: grid or random"
        raise InputError(
            [Problem("", "search.kind: optuna", "Optuna is not installed", help_)]
        ) from None


class Proposals:
    """An Optuna study over the parameters of ours."""

    def __init__(self, study: SweepStudy) -> None:
        self.study, self.optuna = study, _optuna()
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)
        directions = ["maximize" if more else "minimize" for _, more in study.search.objectives]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constraints are an experiment of Optuna's
            sampler = self.optuna.samplers.TPESampler(
                seed=study.base["seed"] % 2**32, constraints_func=_lacking
            )
        self.trials = self.optuna.create_study(directions=directions, sampler=sampler)
        self.asked: dict[int, Any] = {}
        self.refused = 0

    def batch(self) -> list[Point]:
        """The next points; none when the study has all of its points."""
        first = len(self.asked)
        search = self.study.search
        size = min(search.batch or _BATCH, (search.points or 0) - first)
        return [self._ask(first + place) for place in range(size)]

    def _ask(self, index: int) -> Point:
        failed = self.optuna.trial.TrialState.FAIL
        for _ in range(_TRIES):
            trial = self.trials.ask()
            values: Values = tuple(
                _suggest(trial, each.name, each.domain) for each in self.study.parameters
            )
            if admits(self.study, values):
                self.asked[index] = trial
                return index, values
            self.refused += 1
            self.trials.tell(trial, state=failed)
        place = self.study.source.place(("constraints",))
        message = f"the constraints refused {_TRIES:,} proposals in a row"
        raise InputError(
            [Problem(self.study.source.file, place, message, "constraints that more points fulfil")]
        )

    def tell(self, points: Sequence[Point], finished: Callable[[int], Finished]) -> None:
        """Report the results of the points, in order."""
        failed = self.optuna.trial.TrialState.FAIL
        for index, _ in points:
            results = finished(index).results
            values = [results.get(name) for name, _ in self.study.search.objectives]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.asked[index].set_user_attr(_LACKING, _lack(results))
                if None in values:
                    self.trials.tell(self.asked[index], state=failed)
                else:
                    self.trials.tell(self.asked[index], values)


def _lack(results: Mapping[str, Any]) -> float:
    """By how much of what there is the memory that a point needs exceeds it; 0 where it fits, or
    may."""
    if results.get("fits") != "no":
        return 0.0
    return float(results["memory_bytes"] / max(results["memory_capacity_bytes"], 1) - 1)


def _lacking(trial: Any) -> tuple[float]:  # noqa: ANN401 - Optuna's
    return (trial.user_attrs.get(_LACKING, 0.0),)


class Trial(Protocol):
    """Methods by which Optuna is asked for values."""

    suggest_int: Any
    suggest_float: Any
    suggest_categorical: Any


def _suggest(trial: Trial, name: str, found: domain.Domain) -> object:
    if isinstance(found, domain.Range) and found.steps is None:
        if found.whole:
            return trial.suggest_int(name, int(found.low), int(found.high), log=found.log)
        return found.shown(
            trial.suggest_float(name, float(found.low), float(found.high), log=found.log)
        )
    grid = () if isinstance(found, domain.Normal) else found.grid()
    if isinstance(found, domain.Range):
        return grid[trial.suggest_int(name, 0, len(grid) - 1)]
    return grid[trial.suggest_categorical(name, list(range(len(grid))))]
