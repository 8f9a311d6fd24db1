"""Random problems that the tests of design share."""

from __future__ import annotations

import numpy as np

from armillary.design.optimal import Constraint
from armillary.estimate.step_model import StepModel, StepPart, serial


def total(budget: float, dimensions: int) -> Constraint:
    """All of a budget, no more and no less."""
    return Constraint("total", (1.0,) * dimensions, budget, True)


def random_model(rng: np.random.Generator, dimensions: int, terms: int) -> StepModel:
    """Terms over random subsets of the dimensions, bytes over four orders of magnitude."""
    used = rng.random((terms, dimensions)) < 0.7
    loads = np.exp(rng.normal(0, 2, (terms, dimensions))) * used * 1e9
    return serial(
        "random", float(rng.random()), [(f"t{i}", row) for i, row in enumerate(loads)], dimensions
    )


def overlapping(rng: np.random.Generator, dimensions: int, terms: int) -> StepModel:
    """The same with several parts of several lines, latencies and pipelines to fill."""
    plain = random_model(rng, dimensions, terms)
    lines = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(1, 4)))]
    parts = tuple(StepPart(rng.normal(0, 0.1, each), rng.random((each, terms))) for each in lines)
    fixed = rng.random((terms, dimensions)) * 1e-2
    return StepModel(
        "overlapping",
        plain.terms,
        plain.loads,
        plain.compute,
        parts,
        fixed,
        float(rng.choice([0.0, 1 / 64])),
    )
