"""One topology solved, and the program that bounds a set of topologies.

Here: a design, the models and prices of blocks, best bandwidths and whole links. Not here: which
topologies are tried (`search.py`), the solver (`optimal.py`, `pareto_front.py`)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..estimate.step_model import StepModel, Vector
from ..estimate.terms import Job, step_model
from ..estimate.topology import Space, Topology
from . import bind, optimal, pareto_front, timing, whole_links
from .optimal import Constraint, Question
from .task import ParallelismChoice, Task
from .whole_links import Offer


@dataclass(frozen=True, eq=False)
class Design:
    """A topology with its best bandwidths."""

    topology: Topology
    stack: tuple[str, ...]
    """Technology of each dimension."""
    choice: ParallelismChoice
    models: tuple[StepModel, ...]
    """Models of the step of each workload."""
    price: Vector | None
    """[D] dollars for a byte a second; nothing without prices."""
    constraints: tuple[Constraint, ...]
    bandwidth: Vector
    """[D] of an NPU, bytes a second."""
    value: float
    """Minimum of the objective: seconds, dollar seconds, or dollars."""
    bound: float
    """No bandwidths of this topology have a smaller value."""
    marginal: Vector
    """[D] how much smaller the objective is for another byte a second in a dimension that costs and
    displaces nothing. """
    multipliers: dict[str, float] = field(default_factory=dict)
    """Decrease of the objective for each constraint when its limit is one unit higher."""
    links: tuple[whole_links.Links, ...] = ()
    """Links of each dimension, where whole links are bought."""
    continuous: float | None = None
    """The least value with bandwidths of any size, where whole links are bought: what rounding
    costs is the difference. """

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds of a step, by workload."""
        return tuple(model.time(self.bandwidth) for model in self.models)

    @property
    def time(self) -> float:
        """Weighted sum of the step times, s."""
        return sum(
            job.weight * each for job, each in zip(self.choice.jobs, self.times, strict=True)
        )

    @property
    def cost(self) -> float | None:
        """Dollars; nothing without prices."""
        return None if self.price is None else float(self.price @ self.bandwidth)

    @property
    def gap(self) -> float:
        """Duality gap over the value."""
        return max(0.0, self.value - self.bound) / abs(self.value) if self.value else 0.0


@dataclass(frozen=True, eq=False)
class Prepared:
    """A space under one choice, with its models and prices as each block makes them."""

    choice: ParallelismChoice
    space: Space
    stack: tuple[str, ...]
    models: dict[str, tuple[StepModel, ...]]
    """Models for each block, as if every dimension were one."""
    prices: dict[str, Vector] | None
    """Prices of each block, [D]."""
    offers: dict[str, tuple[Offer, ...]]
    """Offers of each block, one for each dimension; empty where any bandwidth is sold."""

    def price(self, block: str, dimension: int) -> float:
        """Dollars for a byte a second of a block in a dimension; 0 without prices."""
        return 0.0 if self.prices is None else float(self.prices[block][dimension])

    def offer(self, block: str, dimension: int) -> Offer | None:
        """Offer of a block in a dimension; nothing where any bandwidth is sold."""
        return self.offers[block][dimension] if self.offers else None

    def column(self, block: str, dimension: int) -> Vector:
        """All bytes and times that depend on the block of a dimension."""
        parts = [
            [model.loads[:, dimension], model.fixed[:, dimension]] for model in self.models[block]
        ]
        return np.concatenate([each for some in parts for each in some])


@dataclass(frozen=True, eq=False)
class Instance:
    """A convex program: of a topology, or of the fictitious one that bounds a set."""

    choice: ParallelismChoice
    space: Space
    stack: tuple[str, ...]
    models: tuple[StepModel, ...]
    price: Vector | None
    constraints: tuple[Constraint, ...]
    offers: tuple[tuple[Offer, ...], ...] = ()
    """Offers of each dimension, one for each block that is allowed there; empty where any bandwidth
    is sold."""

    @property
    def question(self) -> Question:
        """The program as `optimal` takes it."""
        limits = tuple(job.limit for job in self.choice.jobs)
        weights = tuple(job.weight for job in self.choice.jobs)
        given = limits if any(each is not None for each in limits) else ()
        return Question(self.models, weights, self.constraints, limits=given)


Maker = Callable[[Job, Topology], StepModel | None]
"""The model of a step on a topology; nothing where a group lies on no grid of it."""


def modelled(task: Task, job: Job, topology: Topology) -> StepModel | None:
    """The model of a job's step on a topology; nothing where a group lies on no grid of it."""
    return step_model(job, topology, timing.of(task, topology))


def prepare(task: Task, choice: ParallelismChoice, space: Space, make: Maker) -> Prepared | None:
    """The models and prices of a space's blocks; nothing where a group lies on no grid."""
    models: dict[str, tuple[StepModel, ...]] = {}
    prices: dict[str, Vector] = {}
    offers: dict[str, tuple[Offer, ...]] = {}
    stack = task.stack(space.first)
    for block in dict.fromkeys(itertools.chain(*space.blocks)):
        topology = space.topology([block] * len(space.sizes))
        made = [make(job, topology) for job in choice.jobs]
        found = tuple(each for each in made if each is not None)
        if len(found) < len(made):
            return None
        models[block] = found
        if task.costs:
            prices[block] = np.array(task.costs.price(topology, stack))
            offers |= {block: some} if (some := task.costs.offers(topology, stack)) else {}
    return Prepared(choice, space, stack, models, prices if task.costs else None, offers)


def program_of(task: Task, prepared: Prepared, space: Space) -> Instance:
    """The program of a set: in each dimension the least price and the fewest bytes of its
    blocks."""
    dims = len(space.sizes)
    price = None
    if prepared.prices is not None:
        price = np.array(
            [min(prepared.price(each, d) for each in some) for d, some in enumerate(space.blocks)]
        )
    models = []
    for index, like in enumerate(prepared.models[space.blocks[0][0]]):
        loads, fixed = like.loads.copy(), like.fixed.copy()
        for d, some in enumerate(space.blocks):
            versions = [prepared.models[each][index] for each in some]
            loads[:, d] = np.min([each.loads[:, d] for each in versions], axis=0)
            fixed[:, d] = np.min([each.fixed[:, d] for each in versions], axis=0)
        models.append(dataclasses.replace(like, loads=loads, fixed=fixed))
    topology = space.first
    limits = bind.constraints(
        task, topology, prepared.stack, list(price) if price is not None else [0.0] * dims
    )
    offers: tuple[tuple[Offer, ...], ...] = ()
    if prepared.offers:
        offers = tuple(
            tuple(prepared.offers[each][d] for each in some) for d, some in enumerate(space.blocks)
        )
        limits = whole_links.relaxed(limits, offers)
    return Instance(prepared.choice, space, prepared.stack, tuple(models), price, limits, offers)


def nowhere_worse(prepared: Prepared, one: str, other: str, dimension: int) -> bool:
    """Whether block `one` costs and carries no more than `other` in a dimension."""
    cheaper = prepared.price(one, dimension) <= prepared.price(other, dimension)
    cheaper = cheaper and prepared.offer(one, dimension) == prepared.offer(other, dimension)
    return cheaper and bool(
        np.all(prepared.column(one, dimension) <= prepared.column(other, dimension))
    )


def best_block(
    task: Task, prepared: Prepared, allowed: Sequence[str], dimension: int
) -> str | None:
    """The block that is as good as all others; the cheapest of those that are."""
    if not task.priced:
        columns = {each: prepared.column(each, dimension) for each in allowed}
        least = [
            each
            for each in allowed
            if all(np.all(columns[each] <= other) for other in columns.values())
        ]
        return min(least, key=lambda each: prepared.price(each, dimension)) if least else None
    return next(
        (
            each
            for each in allowed
            if all(nowhere_worse(prepared, each, other, dimension) for other in allowed)
        ),
        None,
    )


def best_blocks(task: Task, prepared: Prepared, space: Space) -> tuple[str, ...] | None:
    """The best block of each dimension; nothing where one has none."""
    found = [best_block(task, prepared, allowed, d) for d, allowed in enumerate(space.blocks)]
    chosen = tuple(each for each in found if each is not None)
    return chosen if len(chosen) == len(found) else None


def price_of(instance: Instance) -> Vector:
    """Prices by dimension; zeros without any."""
    return instance.price if instance.price is not None else np.zeros(len(instance.stack))


def designed(task: Task, instance: Instance, topology: Topology) -> Design:
    """The best bandwidths of a topology. Raises `NoSolution`."""
    question = instance.question
    if task.objective == "performance_per_cost":
        best = pareto_front.least_product(question, price_of(instance))
        there = optimal.optimise(
            dataclasses.replace(question, price=price_of(instance) * best.point.rate)
        )
        bandwidth, marginal = best.point.bandwidth, there.marginal
        return made(
            instance, topology, bandwidth, best.value, best.bound, marginal, there.multipliers
        )
    if task.objective == "cost":
        weights = (0.0,) * len(instance.models)
        question = dataclasses.replace(question, weights=weights, price=price_of(instance))
    found = optimal.optimise(question)
    return made(
        instance,
        topology,
        found.bandwidth,
        found.value,
        found.bound,
        found.marginal,
        found.multipliers,
    )


def in_whole_links(task: Task, instance: Instance, design: Design) -> Design:
    """The best whole links of a topology whose best bandwidths of any size are `design`. Raises
    `NoSolution`."""
    question, price = instance.question, price_of(instance)
    if task.objective == "cost":
        question = dataclasses.replace(question, weights=(0.0,) * len(instance.models), price=price)
    offers = tuple(some[0] for some in instance.offers)
    found = whole_links.best(
        question, offers, price if task.objective == "performance_per_cost" else None
    )
    return dataclasses.replace(
        design,
        bandwidth=found.bandwidth,
        value=found.value,
        bound=found.bound,
        marginal=found.marginal,
        multipliers={},
        links=found.links,
        continuous=design.value,
    )


def made(
    instance: Instance,
    topology: Topology,
    bandwidth: Vector,
    value: float,
    bound: float,
    marginal: Vector,
    multipliers: dict[str, float],
) -> Design:
    """The design that a program\'s solution is."""
    return Design(
        topology,
        instance.stack,
        instance.choice,
        instance.models,
        instance.price,
        instance.constraints,
        bandwidth,
        value,
        bound,
        marginal,
        multipliers,
    )
