"""Which topologies are best, and how much of the space that is proved for.

Here: branch and bound over blocks. Not here: the best bandwidths of one topology (`optimal.py`, `front.py`).

What a block costs and which bytes it carries depend on its own dimension only. So a set of topologies that allows
several blocks in some dimensions is bounded by one fictitious topology that has, in each dimension, the least price and
the fewest bytes of all allowed. Sets are taken up by ascending bound. Where one block is both the cheapest and the one
with the fewest bytes in every dimension, the fictitious topology is real: a design, and as every set left has a larger
bound, the next best one. What is left of its set is split by the first dimension that differs (Lawler, Management
Science 1972); other sets are split at a dimension in which price and bytes disagree. After `top` designs all sets left
are proved to hold none better.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import InputError, Problem
from . import bind, front, infeasible, optimal, timing, traffic
from .build import step_model
from .model import StepModel, Vector
from .optimal import Constraint, NoSolution, Question
from .task import Choice, Task
from .topology import Space, Topology

_EVEN = 1e-6
"""Values nearer than that, relatively, count as equal."""

Progress = Callable[[float, int, int], None]
"""Called with the share of the work that is done, topologies settled and topologies there are."""


@dataclass(frozen=True, eq=False)
class Design:
    """A topology with its best bandwidths."""

    topology: Topology
    stack: tuple[str, ...]
    """Technology of each dimension."""
    choice: Choice
    models: tuple[StepModel, ...]
    """Of the step of each workload."""
    price: Vector | None
    """[D] dollars for a byte a second; nothing without prices."""
    constraints: tuple[Constraint, ...]
    bandwidth: Vector
    """[D] of an NPU, bytes a second."""
    value: float
    """What was minimised: seconds, dollar seconds, or dollars."""
    bound: float
    """No bandwidths of this topology have a smaller value."""
    marginal: Vector
    """[D] how much smaller the objective is for another byte a second in a dimension that costs and displaces nothing.
    """
    multipliers: dict[str, float] = field(default_factory=dict)
    """By constraint, how much smaller the objective is for one more of what it limits."""

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds of a step, by workload."""
        return tuple(model.time(self.bandwidth) for model in self.models)

    @property
    def time(self) -> float:
        """Weighted sum of the step times, s."""
        return sum(job.weight * each for job, each in zip(self.choice.jobs, self.times, strict=True))

    @property
    def cost(self) -> float | None:
        """Dollars; nothing without prices."""
        return None if self.price is None else float(self.price @ self.bandwidth)

    @property
    def gap(self) -> float:
        """Duality gap over the value."""
        return max(0.0, self.value - self.bound) / abs(self.value) if self.value else 0.0


@dataclass(frozen=True, eq=False)
class Found:
    """What the search found."""

    designs: tuple[Design, ...]
    """The best ones, best first; for `pareto` the front, cheapest first."""
    topologies: int
    """Topologies times choices of parallelisation there are."""
    listed: int
    """Of them those that are among `designs`."""
    excluded: int
    """Proved to be no better than the last one listed (by more than a millionth), or to differ from one of them in
    nothing that matters.
    """
    misplaced: int
    """On which a group of some workload lies on no grid."""
    infeasible: int
    """For which no bandwidths fulfil the constraints."""
    programs: int
    """Sets and topologies that were solved."""

    @property
    def proved(self) -> float:
        """Share of the space that is settled, 0..1."""
        settled = self.listed + self.excluded + self.misplaced + self.infeasible
        return settled / self.topologies if self.topologies else 1.0


def search(task: Task, progress: Progress | None = None) -> Found:
    """The best designs. Raises `InputError` when no topology is left, naming the constraints that conflict."""
    searcher = _Searcher(task, progress)
    return searcher.fronts() if task.objective == "pareto" else searcher.run()


def solve(task: Task, choice: Choice, topology: Topology) -> Design:
    """The best bandwidths of one topology. Raises `InputError` naming what conflicts."""
    found = _prepared(task, choice, Space(topology.sizes, tuple((each,) for each in topology.blocks)))
    if found is None:
        raise InputError([_misplaced(task, [topology])])
    instance = _instance(task, found, found.space)
    try:
        return _design(task, instance, topology)
    except NoSolution:
        raise InputError([_conflict(task, instance)]) from None


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A space under one choice, with its models and prices as each block makes them."""

    choice: Choice
    space: Space
    stack: tuple[str, ...]
    models: dict[str, tuple[StepModel, ...]]
    """By block, as if every dimension were one."""
    prices: dict[str, Vector] | None
    """By block, [D]."""

    def price(self, block: str, dimension: int) -> float:
        return 0.0 if self.prices is None else float(self.prices[block][dimension])

    def column(self, block: str, dimension: int) -> Vector:
        """All bytes and times that depend on the block of a dimension."""
        parts = [[model.loads[:, dimension], model.fixed[:, dimension]] for model in self.models[block]]
        return np.concatenate([each for some in parts for each in some])


@dataclass(frozen=True, eq=False)
class _Instance:
    """A convex program: of a topology, or of the fictitious one that bounds a set."""

    choice: Choice
    space: Space
    stack: tuple[str, ...]
    models: tuple[StepModel, ...]
    price: Vector | None
    constraints: tuple[Constraint, ...]

    @property
    def question(self) -> Question:
        limits = tuple(job.limit for job in self.choice.jobs)
        weights = tuple(job.weight for job in self.choice.jobs)
        given = limits if any(each is not None for each in limits) else ()
        return Question(self.models, weights, self.constraints, limits=given)


@dataclass(frozen=True, eq=False)
class _Set:
    """Topologies that are left, and their bound."""

    prepared: _Prepared
    space: Space
    best: tuple[str, ...] | None
    """The blocks that are the cheapest and carry the fewest bytes, where they are the same in every dimension."""
    design: Design | None
    """Of the topology of `best`, or nothing."""


class _Searcher:
    def __init__(self, task: Task, progress: Progress | None) -> None:
        self.task, self.progress = task, progress
        self.heap: list[tuple[float, int, _Set]] = []
        self.number = itertools.count()
        self.designs: list[Design] = []
        self.excluded = self.misplaced = self.infeasible = self.programs = 0
        self.count = sum(each.count for each in task.spaces) * len(task.choices)
        self.conflict: _Instance | None = None

    def run(self) -> Found:
        for done, total, prepared in self.prepared():
            for some in self.starts(prepared):
                self.push(prepared, some)
            self.tell(0.8 * done / total)
        while self.heap and len(self.designs) < self.task.top:
            self.next()
            self.tell(0.8 + 0.2 * len(self.designs) / self.task.top)
        if not self.designs:
            raise InputError([self.reason()])
        last = self.designs[-1].value if len(self.designs) >= self.task.top else math.inf
        self.excluded += sum(each.space.count for bound, _, each in self.heap if bound >= last * (1 - _EVEN))
        return self.found(len(self.designs))

    def fronts(self) -> Found:
        """The front of step time against cost over all topologies: that of each, less what others make needless."""
        points: list[Design] = []
        listed = 0
        for done, total, prepared in self.prepared():
            kept = self.undominated(prepared)
            self.excluded += prepared.space.count - len(kept)
            for blocks in kept:
                points += self.points(prepared, blocks)
                listed += 1
            self.tell(done / total)
        self.designs = list(_nondominated(points))
        if not self.designs:
            raise InputError([self.reason()])
        return self.found(listed - self.infeasible)

    def found(self, listed: int) -> Found:
        return Found(
            tuple(self.designs), self.count, listed, self.excluded, self.misplaced, self.infeasible, self.programs
        )

    def prepared(self) -> Iterator[tuple[int, int, _Prepared]]:
        """Every space under every choice, as far as its groups have a place; how many are done, and how many there
        are.
        """
        total = len(self.task.choices) * len(self.task.spaces)
        for done, (choice, space) in enumerate(itertools.product(self.task.choices, self.task.spaces), 1):
            if self.programs >= self.task.most:
                return
            found = _prepared(self.task, choice, space)
            if found is None:
                self.misplaced += space.count
            else:
                yield done, total, found

    def starts(self, prepared: _Prepared) -> Iterator[Space]:
        """Sets that bounds hold for: the space, or each topology where a constraint asks for a higher cost."""
        if self.task.monotone:
            yield prepared.space
            return
        for blocks in itertools.product(*prepared.space.blocks):
            yield Space(prepared.space.sizes, tuple((each,) for each in blocks))

    def push(self, prepared: _Prepared, space: Space) -> None:
        """Bounds a set and queues it."""
        if not space.count or self.programs >= self.task.most:
            return
        best = _best(self.task, prepared, space)
        instance = _instance(self.task, prepared, space)
        self.programs += 1
        try:
            blocks = best or tuple(some[0] for some in space.blocks)
            design = _design(self.task, instance, space.topology(blocks))
        except NoSolution:
            self.infeasible += space.count
            self.conflict = self.conflict or instance
            return
        kept = design if best else None
        heapq.heappush(self.heap, (design.bound, next(self.number), _Set(prepared, space, best, kept)))

    def next(self) -> None:
        """Takes up the set with the least bound: keeps its design, splits the rest."""
        _, _, some = heapq.heappop(self.heap)
        if some.best is None or some.design is None:
            self.split(some)
            return
        self.designs.append(some.design)
        before: list[tuple[str, ...]] = []
        for d, (chosen, allowed) in enumerate(zip(some.best, some.space.blocks, strict=True)):
            others = [each for each in allowed if each != chosen and not self.alike(some.prepared, each, chosen, d)]
            after = some.space.blocks[d + 1 :]
            same = len(allowed) - 1 - len(others)
            self.excluded += same * math.prod(map(len, after))
            self.push(some.prepared, Space(some.space.sizes, (*before, tuple(others), *after)))
            before.append((chosen,))

    def split(self, some: _Set) -> None:
        """Splits where no block is the cheapest and carries the fewest bytes."""
        blocks = some.space.blocks
        d = next(d for d, allowed in enumerate(blocks) if _best_block(self.task, some.prepared, allowed, d) is None)
        for each in blocks[d]:
            self.push(some.prepared, Space(some.space.sizes, (*blocks[:d], (each,), *blocks[d + 1 :])))

    def alike(self, prepared: _Prepared, one: str, other: str, dimension: int) -> bool:
        """Whether two blocks differ in nothing that matters."""
        same = np.array_equal(prepared.column(one, dimension), prepared.column(other, dimension))
        cost = prepared.price(one, dimension) == prepared.price(other, dimension)
        return same and (cost or not self.task.priced)

    def undominated(self, prepared: _Prepared) -> list[tuple[str, ...]]:
        """The topologies none of whose blocks could be replaced by one that is nowhere worse."""
        kept = []
        for d, allowed in enumerate(prepared.space.blocks):
            some: list[str] = []
            for each in allowed:
                better = [
                    other
                    for other in allowed
                    if other != each
                    and _nowhere_worse(prepared, other, each, d)
                    and not (_nowhere_worse(prepared, each, other, d) and allowed.index(each) < allowed.index(other))
                ]
                some += [] if better else [each]
            kept.append(some)
        return list(itertools.product(*kept))

    def points(self, prepared: _Prepared, blocks: tuple[str, ...]) -> list[Design]:
        """The front of one topology."""
        space = Space(prepared.space.sizes, tuple((each,) for each in blocks))
        instance = _instance(self.task, prepared, space)
        self.programs += 1
        try:
            found = front.front(instance.question, _price(instance), 12)
        except NoSolution:
            self.infeasible += 1
            self.conflict = self.conflict or instance
            return []
        none = np.zeros(len(blocks))
        return [
            _made(instance, space.topology(blocks), each.bandwidth, each.time, each.time, none, {}) for each in found
        ]

    def reason(self) -> Problem:
        """Why nothing is left."""
        if self.conflict is not None:
            return _conflict(self.task, self.conflict)
        return _misplaced(self.task, [each.first for each in self.task.spaces])

    def tell(self, share: float) -> None:
        if self.progress is not None:
            settled = len(self.designs) + self.excluded + self.misplaced + self.infeasible
            self.progress(share, settled, self.count)


def _prepared(task: Task, choice: Choice, space: Space) -> _Prepared | None:
    """The models and prices of a space's blocks; nothing where a group lies on no grid."""
    models: dict[str, tuple[StepModel, ...]] = {}
    prices: dict[str, Vector] = {}
    stack = task.stack(space.first)
    for block in dict.fromkeys(itertools.chain(*space.blocks)):
        topology = space.topology([block] * len(space.sizes))
        made = [step_model(job, topology, timing.of(task, topology)) for job in choice.jobs]
        found = tuple(each for each in made if each is not None)
        if len(found) < len(made):
            return None
        models[block] = found
        if task.costs:
            prices[block] = np.array(task.costs.price(topology, stack))
    return _Prepared(choice, space, stack, models, prices if task.costs else None)


def _instance(task: Task, prepared: _Prepared, space: Space) -> _Instance:
    """The program of a set: in each dimension the least price and the fewest bytes of its blocks."""
    dims = len(space.sizes)
    price = None
    if prepared.prices is not None:
        price = np.array([min(prepared.price(each, d) for each in some) for d, some in enumerate(space.blocks)])
    models = []
    for index, like in enumerate(prepared.models[space.blocks[0][0]]):
        loads, fixed = like.loads.copy(), like.fixed.copy()
        for d, some in enumerate(space.blocks):
            versions = [prepared.models[each][index] for each in some]
            loads[:, d] = np.min([each.loads[:, d] for each in versions], axis=0)
            fixed[:, d] = np.min([each.fixed[:, d] for each in versions], axis=0)
        models.append(dataclasses.replace(like, loads=loads, fixed=fixed))
    topology = space.first
    limits = bind.constraints(task, topology, prepared.stack, list(price) if price is not None else [0.0] * dims)
    return _Instance(prepared.choice, space, prepared.stack, tuple(models), price, limits)


def _nowhere_worse(prepared: _Prepared, one: str, other: str, dimension: int) -> bool:
    cheaper = prepared.price(one, dimension) <= prepared.price(other, dimension)
    return cheaper and bool(np.all(prepared.column(one, dimension) <= prepared.column(other, dimension)))


def _best_block(task: Task, prepared: _Prepared, allowed: Sequence[str], dimension: int) -> str | None:
    """The block that is as good as all others; the cheapest of those that are."""
    if not task.priced:
        columns = {each: prepared.column(each, dimension) for each in allowed}
        least = [each for each in allowed if all(np.all(columns[each] <= other) for other in columns.values())]
        return min(least, key=lambda each: prepared.price(each, dimension)) if least else None
    return next(
        (each for each in allowed if all(_nowhere_worse(prepared, each, other, dimension) for other in allowed)), None
    )


def _best(task: Task, prepared: _Prepared, space: Space) -> tuple[str, ...] | None:
    found = [_best_block(task, prepared, allowed, d) for d, allowed in enumerate(space.blocks)]
    chosen = tuple(each for each in found if each is not None)
    return chosen if len(chosen) == len(found) else None


def _price(instance: _Instance) -> Vector:
    return instance.price if instance.price is not None else np.zeros(len(instance.stack))


def _design(task: Task, instance: _Instance, topology: Topology) -> Design:
    """The best bandwidths of a topology. Raises `NoSolution`."""
    question = instance.question
    if task.objective == "performance_per_cost":
        best = front.least_product(question, _price(instance))
        there = optimal.optimise(dataclasses.replace(question, price=_price(instance) * best.point.rate))
        bandwidth, marginal = best.point.bandwidth, there.marginal
        return _made(instance, topology, bandwidth, best.value, best.bound, marginal, there.multipliers)
    if task.objective == "cost":
        weights = (0.0,) * len(instance.models)
        question = dataclasses.replace(question, weights=weights, price=_price(instance))
    found = optimal.optimise(question)
    return _made(instance, topology, found.bandwidth, found.value, found.bound, found.marginal, found.multipliers)


def _made(
    instance: _Instance,
    topology: Topology,
    bandwidth: Vector,
    value: float,
    bound: float,
    marginal: Vector,
    multipliers: dict[str, float],
) -> Design:
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


def _nondominated(designs: Sequence[Design]) -> Iterator[Design]:
    """By ascending cost, each faster than all cheaper ones."""
    fastest = math.inf
    for each in sorted(designs, key=lambda design: (design.cost or 0.0, design.time)):
        if each.time < fastest * (1 - 1e-6):
            fastest = each.time
            yield each


def _conflict(task: Task, instance: _Instance) -> Problem:
    limits = [
        infeasible.Limit(f"{job.name}: at most {job.limit:g} s", model, job.limit)
        for job, model in zip(instance.choice.jobs, instance.models, strict=True)
        if job.limit is not None
    ]
    names = infeasible.conflict(instance.constraints, len(instance.stack), limits)
    said = "these contradict one another: " + "; ".join(names) if names else "the solver found no bandwidths"
    where = str(instance.space.first)
    return Problem(task.origin or task.name, where, said, "drop or loosen one of them")


def _misplaced(task: Task, tried: Sequence[Topology]) -> Problem:
    place = task.origin or task.name
    help_ = "sizes whose products are those of the groups"
    for job in task.choices[0].jobs:
        for each in job.volumes:
            off = [topology for topology in tried if traffic.extents(each.members, topology.sizes) is None]
            if off:
                said = f"the group {each.group} of {job.name} ({each.members}) lies on no grid of {off[0]}"
                return Problem(place, "topologies", said, help_)
    return Problem(place, "most", "nothing was solved", "more topologies to be solved")
