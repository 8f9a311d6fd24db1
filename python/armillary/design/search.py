"""Which topologies are best, and how much of the space that is proved for.

Here: branch and bound over blocks. Not here: the best bandwidths of one topology (`optimal.py`,
`pareto_front.py`).

What a block costs and which bytes it carries depend on its own dimension only. So one fictitious
topology bounds a set of topologies that allows several blocks in some dimensions: in each dimension
it has the least price and the fewest bytes of all that are allowed. Sets are taken up by ascending
bound. Where one block is both the cheapest and the one with the fewest bytes in every dimension,
the fictitious topology is real: a design, and as every set left has a larger bound, the next best
one. What is left of its set is split by the first dimension that differs (Lawler, Management
Science 1972); other sets are split at a dimension in which price and bytes disagree. After `top`
designs all sets left are proved to hold none that the model finds better. Where bandwidths are
whole links, a topology that comes up is queued once more, by the value of its best whole links
(`whole_links.py`).

All of this is about the model. Which design simulates best is another question (`rank.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, Problem
from ..estimate import traffic
from ..estimate.topology import Space, Topology
from . import infeasible, overlap, pareto_front
from .optimal import Constraint, NoSolution
from .solving import (
    Design,
    Instance,
    Maker,
    Prepared,
    best_block,
    best_blocks,
    designed,
    in_whole_links,
    made,
    modelled,
    nowhere_worse,
    prepare,
    price_of,
    program_of,
)
from .task import ParallelismChoice, Task

_EVEN = 1e-6
"""Values nearer than that, relatively, count as equal."""

Progress = Callable[[float, int, int], None]
"""Called with the share of the work that is done, topologies settled and topologies there are."""


@dataclass(frozen=True, eq=False)
class Found:
    """Results of the search."""

    designs: tuple[Design, ...]
    """The best ones, best first; for `pareto` the front, cheapest first."""
    topologies: int
    """Topologies times choices of parallelisation there are."""
    listed: int
    """Number of these that are among `designs`."""
    excluded: int
    """Topologies proved to be no better than the last one listed (by more than a millionth), or to
    differ from one of them in nothing that matters."""
    misplaced: int
    """Topologies on which a group of some workload fits no grid."""
    infeasible: int
    """Topologies for which no bandwidths fulfil the constraints."""
    programs: int
    """Sets and topologies that were solved."""

    @property
    def proved(self) -> float:
        """Share of the space that is settled, 0..1."""
        settled = self.listed + self.excluded + self.misplaced + self.infeasible
        return settled / self.topologies if self.topologies else 1.0


def search(task: Task, progress: Progress | None = None) -> Found:
    """The best designs by the model. Raises `InputError` when no topology is left, naming what
    conflicts."""
    searcher = Searcher(task, progress)
    searcher.run()
    return searcher.found()


def solve(task: Task, choice: ParallelismChoice, topology: Topology) -> Design:
    """The best bandwidths of one topology. Raises `InputError` naming what conflicts."""
    one = Space(topology.sizes, tuple((each,) for each in topology.blocks))
    found = prepare(task, choice, one, functools.partial(modelled, task))
    if found is None:
        raise InputError([_misplaced(task, [topology])])
    instance = program_of(task, found, found.space)
    try:
        design = designed(task, instance, topology)
        return in_whole_links(task, instance, design) if instance.offers else design
    except NoSolution:
        raise InputError([_conflict(task, instance)]) from None


@dataclass(frozen=True, eq=False)
class _Set:
    """Topologies that are left, and their bound."""

    prepared: Prepared
    space: Space
    best: tuple[str, ...] | None
    """The blocks that are the cheapest and carry the fewest bytes, where they are the same in every
    dimension."""
    design: Design | None
    """Design on the topology of `best`, or nothing."""
    final: bool = True
    """Whether the design's bandwidths can be bought; else they bound those that can."""


class Searcher:
    """Designs by ascending value, as far as they are asked for; `make` is the model of a step."""

    def __init__(
        self, task: Task, progress: Progress | None = None, make: Maker | None = None
    ) -> None:
        self.task, self.progress = task, progress
        self.make = make or functools.partial(modelled, task)
        self.heap: list[tuple[float, int, _Set]] = []
        self.number = itertools.count()
        self.designs: list[Design] = []
        self.excluded = self.misplaced = self.infeasible = self.programs = self.listed = 0
        self.count = sum(each.count for each in task.spaces) * len(task.choices)
        self.conflict: Instance | None = None

    def run(self) -> None:
        """Finds the first `top` designs, or the front. Raises `InputError` when no topology is
        left."""
        if self.task.objective == "pareto":
            self.fronts()
        else:
            self.start()
            while len(self.designs) < self.task.top and self.more() is not None:
                self.report(0.8 + 0.2 * len(self.designs) / self.task.top)
            self.listed = len(self.designs)
        if not self.designs:
            raise InputError([self.reason()])

    def start(self) -> None:
        """Bounds the sets that the search begins with."""
        for done, total, prepared in self.prepared():
            for some in self.starts(prepared):
                self.push(prepared, some)
            self.report(0.8 * done / total)

    def more(self) -> Design | None:
        """The next best design, also kept in `designs`; nothing when there is none."""
        before = len(self.designs)
        while self.heap:
            self.next()
            if len(self.designs) > before:
                self.listed = len(self.designs)
                return self.designs[-1]
        return None

    @property
    def bound(self) -> float:
        """No design that is not in `designs` has a smaller value."""
        return self.heap[0][0] if self.heap else math.inf

    def fronts(self) -> None:
        """The front of step time against cost over all topologies: that of each, less what others
        make needless."""
        points: list[Design] = []
        for done, total, prepared in self.prepared():
            kept = self.undominated(prepared)
            self.excluded += prepared.space.count - len(kept)
            for blocks in kept:
                points += self.points(prepared, blocks)
                self.listed += 1
            self.report(done / total)
        self.designs = list(_nondominated(points))
        self.listed -= self.infeasible

    def found(self) -> Found:
        """Results of the search so far."""
        last = self.designs[-1].value if len(self.designs) >= self.task.top else math.inf
        left = sum(each.space.count for bound, _, each in self.heap if bound >= last * (1 - _EVEN))
        return Found(
            tuple(self.designs),
            self.count,
            self.listed,
            self.excluded + left,
            self.misplaced,
            self.infeasible,
            self.programs,
        )

    def prepared(self) -> Iterator[tuple[int, int, Prepared]]:
        """Every space under every choice, as far as its groups have a place; how many are done, and
        how many there are."""
        total = len(self.task.choices) * len(self.task.spaces)
        for done, (choice, space) in enumerate(
            itertools.product(self.task.choices, self.task.spaces), 1
        ):
            if self.programs >= self.task.most:
                return
            found = prepare(self.task, choice, space, self.make)
            if found is None:
                self.misplaced += space.count
            else:
                yield done, total, found

    def starts(self, prepared: Prepared) -> Iterator[Space]:
        """Sets that bounds hold for: the space, or each topology where a constraint asks for a
        higher cost."""
        if self.task.monotone:
            yield prepared.space
            return
        for blocks in itertools.product(*prepared.space.blocks):
            yield Space(prepared.space.sizes, tuple((each,) for each in blocks))

    def push(self, prepared: Prepared, space: Space) -> None:
        """Bounds a set and queues it."""
        if not space.count or self.programs >= self.task.most:
            return
        best = best_blocks(self.task, prepared, space)
        instance = program_of(self.task, prepared, space)
        self.programs += 1
        try:
            blocks = best or tuple(some[0] for some in space.blocks)
            design = designed(self.task, instance, space.topology(blocks))
        except NoSolution:
            self.infeasible += space.count
            self.conflict = self.conflict or instance
            return
        kept = design if best else None
        final = kept is None or not instance.offers
        heapq.heappush(
            self.heap, (design.bound, next(self.number), _Set(prepared, space, best, kept, final))
        )

    def next(self) -> None:
        """Takes up the set with the least bound: keeps its design, splits the rest."""
        _, _, some = heapq.heappop(self.heap)
        if some.best is None or some.design is None:
            self.split(some)
        elif some.final:
            self.designs.append(some.design)
            self.rest(some, some.best)
        else:
            self.buy(some, some.best)
            self.rest(some, some.best)

    def buy(self, some: _Set, blocks: tuple[str, ...]) -> None:
        """Queues the best whole links of the topology of `blocks`."""
        space = Space(some.space.sizes, tuple((each,) for each in blocks))
        instance = program_of(self.task, some.prepared, space)
        self.programs += 1
        try:
            bought = in_whole_links(
                self.task, instance, designed(self.task, instance, space.topology(blocks))
            )
        except NoSolution:
            self.infeasible += 1
            self.conflict = self.conflict or instance
            return
        heapq.heappush(
            self.heap, (bought.value, next(self.number), _Set(some.prepared, space, blocks, bought))
        )

    def rest(self, some: _Set, best: tuple[str, ...]) -> None:
        """Queues the rest of a set, without the topology of `best`."""
        before: list[tuple[str, ...]] = []
        for d, (chosen, allowed) in enumerate(zip(best, some.space.blocks, strict=True)):
            others = [
                each
                for each in allowed
                if each != chosen and not self.alike(some.prepared, each, chosen, d)
            ]
            after = some.space.blocks[d + 1 :]
            same = len(allowed) - 1 - len(others)
            self.excluded += same * math.prod(map(len, after))
            self.push(some.prepared, Space(some.space.sizes, (*before, tuple(others), *after)))
            before.append((chosen,))

    def split(self, some: _Set) -> None:
        """Splits where no block is the cheapest and carries the fewest bytes."""
        blocks = some.space.blocks
        d = next(
            d
            for d, allowed in enumerate(blocks)
            if best_block(self.task, some.prepared, allowed, d) is None
        )
        for each in blocks[d]:
            self.push(
                some.prepared, Space(some.space.sizes, (*blocks[:d], (each,), *blocks[d + 1 :]))
            )

    def alike(self, prepared: Prepared, one: str, other: str, dimension: int) -> bool:
        """Whether two blocks differ in nothing that matters."""
        same = np.array_equal(prepared.column(one, dimension), prepared.column(other, dimension))
        same = same and prepared.offer(one, dimension) == prepared.offer(other, dimension)
        cost = prepared.price(one, dimension) == prepared.price(other, dimension)
        return same and (cost or not self.task.priced)

    def undominated(self, prepared: Prepared) -> list[tuple[str, ...]]:
        """The topologies none of whose blocks could be replaced by one that is nowhere worse."""
        kept = []
        for d, allowed in enumerate(prepared.space.blocks):
            some: list[str] = []
            for each in allowed:
                better = [
                    other
                    for other in allowed
                    if other != each
                    and nowhere_worse(prepared, other, each, d)
                    and not (
                        nowhere_worse(prepared, each, other, d)
                        and allowed.index(each) < allowed.index(other)
                    )
                ]
                some += [] if better else [each]
            kept.append(some)
        return list(itertools.product(*kept))

    def points(self, prepared: Prepared, blocks: tuple[str, ...]) -> list[Design]:
        """The front of one topology."""
        space = Space(prepared.space.sizes, tuple((each,) for each in blocks))
        instance = program_of(self.task, prepared, space)
        self.programs += 1
        try:
            found = pareto_front.front(instance.question, price_of(instance), 12)
        except NoSolution:
            self.infeasible += 1
            self.conflict = self.conflict or instance
            return []
        none = np.zeros(len(blocks))
        points = [
            made(instance, space.topology(blocks), each.bandwidth, each.time, each.time, none, {})
            for each in found
        ]
        return self.bought_points(instance, points) if instance.offers else points

    def bought_points(self, instance: Instance, points: Sequence[Design]) -> list[Design]:
        """The fastest whole links for the money of each point."""
        kept = []
        for each in points:
            row = tuple(float(value) for value in price_of(instance))
            cap = Constraint("cost of a point", row, (each.cost or 0.0) * (1 + _EVEN))
            capped = dataclasses.replace(instance, constraints=(*instance.constraints, cap))
            try:
                kept.append(in_whole_links(self.task, capped, each))
            except NoSolution:
                continue
        return kept

    def reason(self) -> Problem:
        """The reason why no topology is left."""
        if self.conflict is not None:
            return _conflict(self.task, self.conflict)
        return _misplaced(self.task, [each.first for each in self.task.spaces])

    def report(self, share: float) -> None:
        """Reports progress."""
        if self.progress is not None:
            settled = len(self.designs) + self.excluded + self.misplaced + self.infeasible
            self.progress(share, settled, self.count)


def _nondominated(designs: Sequence[Design]) -> Iterator[Design]:
    """Designs by ascending cost, each faster than all cheaper ones."""
    fastest = math.inf
    for each in sorted(designs, key=lambda design: (design.cost or 0.0, design.time)):
        if each.time < fastest * (1 - 1e-6):
            fastest = each.time
            yield each


def _conflict(task: Task, instance: Instance) -> Problem:
    limits = [
        infeasible.Limit(f"{job.name}: at most {job.limit:g} s", model, job.limit)
        for job, model in zip(instance.choice.jobs, instance.models, strict=True)
        if job.limit is not None
    ]
    names = infeasible.conflict(instance.constraints, len(instance.stack), limits)
    said = (
        "these contradict one another: " + "; ".join(names)
        if names
        else "the solver found no bandwidths"
    )
    where = str(instance.space.first)
    return Problem(task.origin or task.name, where, said, "drop or loosen one of them")


def _misplaced(task: Task, tried: Sequence[Topology]) -> Problem:
    place = task.origin or task.name
    for job in (job for choice in task.choices for job in choice.jobs):
        for each in job.volumes:
            off = [topology for topology in tried if traffic.spans(each, topology.sizes) is None]
            if off:
                said = (
                    f"the group {each.group} of {job.name} ({each.members}) can't be laid out "
                    f"on {off[0]}"
                )
                own = overlap.axes(job.volumes, job.workload.ranks)
                fits = f", such as {' x '.join(map(str, own.sizes))} NPUs" if own else ""
                help_ = f"dimensions that each group fills or divides evenly{fits}"
                return Problem(place, "topologies", said, help_)
    return Problem(place, "most", "nothing was solved", "more topologies to be solved")
