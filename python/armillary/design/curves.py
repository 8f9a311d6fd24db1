"""Step times of the paper's schemes for a total bandwidth on one topology, next to the optimum: at
the total of the design, and at others (the paper's Figs. 13 to 16)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ..estimate.step_model import Vector
from ..estimate.topology import Space
from ..units import GB
from . import bind, schemes
from .check import check
from .optimal import Constraint, NoSolution
from .solving import Design, Instance, designed
from .task import Task

OPTIMAL = "optimal"
NAMES = (*schemes.SCHEMES, OPTIMAL)
_WHOLE_LINKS = "whole links"
_EVEN = 1e-6
"""Relative excess over a limit that does not count."""


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
    """Weighted step time by the model, s."""
    utilisation: float
    """Share of the network that collectives use, weighted by their times, 0..1."""
    cost: float | None
    """Dollars; nothing without prices."""
    breaks: tuple[str, ...] = ()
    """Limits of the specification that it does not keep."""
    simulated: float | None = None
    """Weighted step time by simulation, s; nothing where it was not simulated."""

    @property
    def performance_per_cost(self) -> float | None:
        """Steps a second for a dollar."""
        return 1 / (self.time * self.cost) if self.cost else None


def shares(task: Task, design: Design) -> list[BandwidthShare]:
    """Designs of each scheme with the total of a design, and the design itself as the optimum."""
    total = float(design.bandwidth.sum())
    return [
        *_schemes(task, design, total),
        _share(task, design, OPTIMAL, total, design.bandwidth),
    ]


def simulated(task: Task, design: Design, share: BandwidthShare) -> BandwidthShare:
    """A share of a design's total with its simulated step, on the first backend. Raises
    `InputError`, `StalledError`."""
    there = dataclasses.replace(design, bandwidth=share.bandwidth)
    checks = check(dataclasses.replace(task, backends=task.backends[:1]), there)
    steps = [each.simulated for each in checks]
    late = (each for each in _late(there, steps) if each not in share.breaks)
    step = sum(weight * each for weight, each in zip(_weights(design), steps, strict=True))
    return dataclasses.replace(share, simulated=step, breaks=(*share.breaks, *late))


def missing(found: Sequence[BandwidthShare]) -> list[str]:
    """Notes on the schemes that are not there, and at which totals."""
    notes = []
    for name in NAMES:
        there = {each.total for each in found if each.scheme == name}
        gaps = sorted({each.total for each in found} - there)
        why = "the limits allow no such total" if name == OPTIMAL else "its program has no solution"
        if gaps:
            at = ", ".join(f"{each / GB:.4g}" for each in gaps)
            notes.append(f"{name} is left out at a total of {at} GB/s: {why}")
    return notes


def curves(task: Task, design: Design) -> list[BandwidthShare]:
    """Shares of the task's totals, or of ten up to three times its total and more; nothing without
    a total."""
    totals = task.sweep
    if not totals and task.total is not None:
        totals = tuple(task.total * step / 3 for step in range(1, 11))
    found = []
    for total in totals:
        found += _schemes(task, design, total)
        best = _optimum(task, design, total)
        found += [] if best is None else [_share(task, design, OPTIMAL, total, best)]
    return found


def _schemes(task: Task, design: Design, total: float) -> list[BandwidthShare]:
    """EqualBW, MessageBW and, where its program has a solution, SmartBW."""
    step = schemes.plain(design.models, _weights(design))
    found = {
        "EqualBW": schemes.equal(total, step.dimensions),
        "MessageBW": schemes.message(total, step.volume),
    }
    with contextlib.suppress(NoSolution):  # `missing` says so
        found["SmartBW"] = schemes.smart_of(total, step)
    return [_share(task, design, name, total, given) for name, given in found.items()]


def _optimum(task: Task, design: Design, total: float) -> Vector | None:
    """The best bandwidths with another total, of any size, by the task's objective; nothing where
    the limits do not allow it."""
    price = [0.0] * len(design.topology) if design.price is None else list(design.price)
    limits = bind.constraints(task, design.topology, design.stack, price)
    whole = Constraint(bind.TOTAL, (1.0,) * len(design.topology), total, True)
    instance = Instance(
        design.choice,
        Space(design.topology.sizes, tuple((each,) for each in design.topology.blocks)),
        design.stack,
        design.models,
        design.price,
        (whole, *(each for each in limits if each.name != bind.TOTAL)),
    )
    try:
        return designed(task, instance, design.topology).bandwidth
    except NoSolution:
        return None


def _weights(design: Design) -> tuple[float, ...]:
    return tuple(job.weight for job in design.choice.jobs)


def _share(task: Task, design: Design, name: str, total: float, given: Vector) -> BandwidthShare:
    """A scheme's bandwidths as the model sees them."""
    there = dataclasses.replace(design, bandwidth=given)
    limits = (*_broken(there), *([] if _on_sale(task, there) else [_WHOLE_LINKS]))
    return BandwidthShare(name, total, given, there.time, _utilisation(there), there.cost, limits)


def _utilisation(design: Design) -> float:
    """Utilisation of the network by all workloads, weighted by the time of their collectives."""
    given = design.bandwidth
    busy = [
        model.communication(given) * weight
        for model, weight in zip(design.models, _weights(design), strict=True)
    ]
    used = [model.utilisation(given) for model in design.models]
    whole = sum(busy)
    return sum(a * b for a, b in zip(busy, used, strict=True)) / whole if whole else 1.0


def _broken(design: Design) -> list[str]:
    """Limits other than the total that bandwidths of a scheme do not keep."""
    found = [
        each.name
        for each in design.constraints
        if each.name != bind.TOTAL and each.is_broken(design.bandwidth)
    ]
    return [*found, *_late(design, design.times)]


def _late(design: Design, times: Sequence[float]) -> list[str]:
    """Time bounds that steps of these times exceed."""
    return [
        f"time_bound of {job.name}"
        for job, time in zip(design.choice.jobs, times, strict=True)
        if job.limit is not None and time > job.limit * (1 + _EVEN)
    ]


def _on_sale(task: Task, design: Design) -> bool:
    """Whether whole links give these bandwidths, or any bandwidth is sold."""
    offers = task.costs.offers(design.topology, design.stack) if task.costs else ()
    return all(
        any(abs(each - given) <= _EVEN * each for each in offer.bandwidths)
        for offer, given in zip(offers, design.bandwidth, strict=False)
    )
