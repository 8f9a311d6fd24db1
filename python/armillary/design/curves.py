"""What more bandwidth buys one topology, shared out by each of the paper's schemes and optimally
(its Figs. 13, 14 and 16)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from . import bind, schemes
from .model import StepModel, Vector, everything
from .optimal import Constraint, NoSolution, Question, optimise
from .solving import Design
from .task import Task

OPTIMAL = "optimal"


@dataclass(frozen=True, eq=False)
class BandwidthShare:
    """One way to share out a total."""

    scheme: str
    """EqualBW, MessageBW, SmartBW, or optimal."""
    total: float
    """Bytes a second of an NPU over all dimensions."""
    bandwidth: Vector
    """[D] bytes a second."""
    time: float
    """Weighted step time, s."""
    utilisation: float
    """Of the network by the collectives, weighted by the time they take, 0..1."""
    cost: float | None
    """Dollars; nothing without prices."""

    @property
    def performance_per_cost(self) -> float | None:
        """Steps a second for a dollar."""
        return 1 / (self.time * self.cost) if self.cost else None


def shares(
    design: Design, total: float, constraints: Sequence[Constraint] = ()
) -> list[BandwidthShare]:
    """What each scheme makes of a total, and the optimum within the `constraints`.

    SmartBW is there for a single workload that it applies to, the optimum where the constraints
    allow the total."""
    weights = tuple(job.weight for job in design.choice.jobs)
    volume = sum(
        (model.volume * w for model, w in zip(design.models, weights, strict=True)),
        start=0 * design.bandwidth,
    )
    found = {
        "EqualBW": schemes.equal(total, len(design.topology)),
        "MessageBW": schemes.message(total, volume),
    }
    smart = schemes.smart(total, plain(design.models[0])) if len(design.models) == 1 else None
    if smart is not None:
        found["SmartBW"] = smart
    whole = Constraint(bind.TOTAL, (1.0,) * len(design.topology), total, True)
    try:
        best = optimise(Question(design.models, weights, (whole, *constraints)))
        found[OPTIMAL] = best.bandwidth
    except NoSolution:
        pass
    return [_share(design, weights, name, total, given) for name, given in found.items()]


def plain(model: StepModel) -> StepModel:
    """The model as SmartBW sees it: collectives one after another, no latencies."""
    return dataclasses.replace(
        model, parts=(everything(len(model.terms)),), fixed=0 * model.fixed, fill=0.0
    )


def curves(task: Task, design: Design) -> list[BandwidthShare]:
    """Shares of the task's totals, or of ten up to three times its total and more; nothing without
    a total."""
    totals = task.sweep
    if not totals and task.total is not None:
        totals = tuple(task.total * step / 3 for step in range(1, 11))
    price = (
        [0.0] * len(design.topology)
        if design.price is None
        else [float(each) for each in design.price]
    )
    limits = [
        each
        for each in bind.constraints(task, design.topology, design.stack, price)
        if each.name != bind.TOTAL
    ]
    return [each for total in totals for each in shares(design, total, limits)]


def _share(
    design: Design, weights: Sequence[float], name: str, total: float, given: Vector
) -> BandwidthShare:
    times = [model.time(given) for model in design.models]
    busy = [
        model.communication(given) * weight
        for model, weight in zip(design.models, weights, strict=True)
    ]
    used = [model.utilisation(given) for model in design.models]
    whole = sum(busy)
    utilisation = sum(a * b for a, b in zip(busy, used, strict=True)) / whole if whole else 1.0
    time = sum(weight * each for weight, each in zip(weights, times, strict=True))
    cost = None if design.price is None else float(design.price @ given)
    return BandwidthShare(name, total, given, time, utilisation, cost)
