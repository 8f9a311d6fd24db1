"""Neighbours of the answer: the best layouts with other batches, networks and memories.

Half and twice the batch, and links with half and twice the bandwidth, are simulated with the best
layout. Of more or less memory, the layout with the smallest estimate is taken, which costs no
simulation. Not here: the search (`search.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import InputError
from ..platform import Platform
from ..units import GB, NS_PER_S, PS_PER_NS
from .job import Job
from .least import capacity_of
from .result import Neighbour, Ranked
from .space import LayoutSpace
from .trial import trial

_SIMULATED = (0.5, 2.0)
_MEMORIES = (0.5, 0.75, 1.25, 1.5, 2.0)


@dataclass(frozen=True)
class Neighbourhood:
    """A finished search on one machine."""

    job: Job
    target: Platform
    backend: str | None
    space: LayoutSpace
    limits: tuple[int, int]
    """Bytes up to which a layout surely fits, and up to which it may."""

    def around(self, winner: Ranked) -> list[Neighbour]:
        """The best layout with other batches and networks, and the best layouts of other
        memories."""
        return [*self._batches(winner), *self._networks(winner), *self._memories()]

    def _batches(self, winner: Ranked) -> Iterator[Neighbour]:
        for factor in _SIMULATED:
            batch = self.job.global_batch * factor
            if batch == int(batch) >= 1:
                options = {**winner.options, "global_batch": int(batch)}
                yield from self._simulated("batch", factor, options, self.target)

    def _networks(self, winner: Ranked) -> Iterator[Neighbour]:
        for factor in _SIMULATED:
            settings = link_bandwidths(self.target, factor)
            if settings:
                changed = self.target.changed(settings)
                yield from self._simulated("network", factor, winner.options, changed)

    def _simulated(
        self, what: str, factor: float, options: Mapping[str, object], target: Platform
    ) -> Iterator[Neighbour]:
        """The layout there; without a step where the batch can't be divided so, or where a run
        would take minutes."""
        try:
            run = trial(self.job.model, options, target, self.backend)
        except InputError:
            run = None
        step, rate = (None, None) if run is None else (run.step_time_ns, run.tokens_per_s)
        yield Neighbour(what, factor, options, step, rate, simulated=run is not None)

    def _memories(self) -> Iterator[Neighbour]:
        """The layout with the smallest estimate, where NPUs had more or less memory."""
        if capacity_of(self.target) is None:
            return
        core, job = self.space.parts.space, self.job
        for factor in _MEMORIES:
            surely, perhaps = (int(most * factor) for most in self.limits)
            core.search((surely, perhaps), job.near, (1, 0), None)
            rows = core.fastest(0, 1)
            if not rows:
                yield Neighbour("memory", factor, None, None, None, simulated=False)
                continue
            group, choice, _, estimate, *_ = rows[0]
            options = {**self.space.options(group, choice), **job.software}
            step = estimate / PS_PER_NS
            tokens = job.global_batch * job.seq / (step / NS_PER_S)
            yield Neighbour("memory", factor, options, step, tokens, simulated=False)


def link_bandwidths(target: Platform, factor: float) -> dict[str, object]:
    """Settings that multiply the bandwidth of all links; none where links are not by dimension."""
    found = target.describe()
    dims = found["fabric"].get("dims")
    if dims is None or found.get("logical") is not None:
        return {}
    # Links side by side have their bandwidth together; the key is that of one of them.
    rates = (dim["link_bandwidth"] / dim.get("links_side_by_side", 1) for dim in dims)
    return {
        f"links[{at}].bandwidth": f"{rate * factor / GB:.9f} GB/s" for at, rate in enumerate(rates)
    }
