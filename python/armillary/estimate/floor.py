"""A floor under the simulated time of a step: what no simulation on a network with these bandwidths
can be faster than.

Unlike the model of a step (`step_model.py`), which may err either way, this is a true lower bound,
from two facts:

- The operations of a chain depend each on the one before, so they take place one after another,
  and no collective is faster than its bytes over the bandwidth of the dimension they take longest
  on: `T >= c_k + sum_g max_d(bytes_gkd / bw_d)` for each chain `k`, with `c_k` seconds of
  computation.
- What an NPU sends along a dimension takes as long as its links need: `T >= sum_g bytes_gd / bw_d`
  for each `d`.

Messages of pipelines only order the computations of a chain, and take no time. Neither do
collectives with a root: an NPU that is done with its part need not wait for the root. The floor is
a `StepModel`, so the best bandwidths under it are found, and bounded, like those of the model.
Chains come from the simulator's own graph and durations (`crates/sim/src/floor.rs`), each the
longest one for the bandwidths of some design.

Not here: which designs the floor excludes (`rank.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..platform import Platform
from ..units import S_PER_PS
from . import traffic
from .step_model import StepModel, StepPart
from .terms import Job
from .topology import Topology
from .traffic import GroupVolume

_SYMMETRIC = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
"""Collectives in which every NPU sends the same."""
_NEUTRAL = (
    "npu",
    "scheduler.policy",
    "scheduler.all_to_all_first",
    "scheduler.chunks",
    "scheduler.dispatch_below",
    "scheduler.dispatch_chunks",
    "scheduler.active_chunks",
    "scheduler.queues_per_dim",
    "scheduler.endpoint_delay",
    "scheduler.comm_streams",
    "scheduler.rendezvous",
    "scheduler.replay_only",
)
"""Settings that leave every collective the bytes that `traffic.py` states."""
_ROUNDING = 1e-6
"""Relative margin of a floor for times in whole picoseconds and bytes in whole numbers."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Operations one after another."""

    seconds: float
    """Seconds of computation."""
    bytes: tuple[int, ...]
    """Bytes of collectives, for each volume of the workload."""


@dataclass(eq=False)
class Floor:
    """The floor of one workload; it rises with every design that it is shown."""

    job: Job
    settings: Mapping[str, object]
    chains: list[Chain] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chains.append(self._chain([0.0] * len(self.volumes)))

    @cached_property
    def volumes(self) -> tuple[GroupVolume, ...]:
        """Volumes of every program."""
        return traffic.volumes(self.job.workload)

    @cached_property
    def counts_bytes(self) -> bool:
        """Whether the settings leave collectives the bytes they are known to send."""
        return all(key.split(".")[0] == "npu" or key in _NEUTRAL for key in self.settings)

    def show(self, topology: Topology, bandwidth: Sequence[float]) -> None:
        """Adds the chain that is the longest on a network."""
        if not self.counts_bytes:
            return
        rates = [_seconds(each, topology, bandwidth) for each in self.volumes]
        found = self._chain(rates)
        if found not in self.chains:
            self.chains.append(found)

    def model(self, topology: Topology) -> StepModel | None:
        """The floor as a function of the bandwidths; nothing where a group lies on no grid of the
        topology."""
        places = [traffic.spans(each, topology.sizes) for each in self.volumes]
        if any(each is None for each in places):
            return None
        terms: dict[tuple[str, traffic.Extents], int] = {}
        column = [
            terms.setdefault((each.kind, place or ()), len(terms))
            if each.kind in _SYMMETRIC
            else None
            for each, place in zip(self.volumes, places, strict=True)
        ]
        totals = np.zeros(len(terms))
        for each, at in zip(self.volumes, column, strict=True):
            if at is not None:
                totals[at] += float(each.bytes)
        loads = [
            traffic.loads(kind, float(totals[at]), place, topology)
            for (kind, place), at in terms.items()
        ]
        lines = np.zeros((len(self.chains), len(terms)))
        for row, chain in zip(lines, self.chains, strict=True):
            for size, at in zip(chain.bytes, column, strict=True):
                if at is not None and size:
                    row[at] += float(size) / totals[at]
        return self._joined(topology, np.array(loads).reshape(-1, len(topology)), lines)

    def _joined(self, topology: Topology, loads: np.ndarray, lines: np.ndarray) -> StepModel:
        """Chains, and below them what each dimension has to carry."""
        dims = len(topology)
        carried = np.diag(self._carried(topology))
        counts = np.zeros((len(lines) + dims, len(loads) + dims))
        counts[: len(lines), : len(loads)] = lines
        counts[len(lines) :, len(loads) :] = np.eye(dims)
        offsets = np.array([each.seconds for each in self.chains] + [0.0] * dims)
        every = np.vstack([loads, carried])
        names = tuple(f"{index}" for index in range(len(every)))
        part = StepPart(offsets * (1 - _ROUNDING), counts)
        return StepModel(
            self.job.name, names, every * (1 - _ROUNDING), 0.0, (part,), np.zeros_like(every)
        )

    def _carried(self, topology: Topology) -> np.ndarray:
        """[D] bytes that an NPU of the busiest program sends along each dimension, over all of its
        links."""
        found = np.zeros(len(topology))
        for each in self.job.volumes if self.counts_bytes else ():
            spans = (
                traffic.extents(each.members, topology.sizes) if each.kind in _SYMMETRIC else None
            )
            own = (
                np.array(traffic.loads(each.kind, float(each.bytes), spans, topology))
                if spans
                else 0 * found
            )
            for index, count, _ in spans or ():
                if (
                    topology.blocks[index] == "FullyConnected"
                ):  # other groups take the links that this one leaves
                    own[index] *= (count - 1) / (topology.sizes[index] - 1)
            found += own
        return found

    def _chain(self, rates: Sequence[float]) -> Chain:
        ideal = Platform(
            f"SW({max(self.job.workload.ranks, 2)})",
            bandwidth="1 GB/s",
            latency="0 ns",
            settings=dict(self.settings),
        )
        picoseconds, sizes = self.job.workload._core.chain(ideal._core, list(rates))
        return Chain(picoseconds * S_PER_PS, tuple(sizes))


def _seconds(volume: GroupVolume, topology: Topology, bandwidth: Sequence[float]) -> float:
    """Least time of a byte of a collective on a network; none for messages and with a root."""
    spans = traffic.spans(volume, topology.sizes)
    if volume.kind not in _SYMMETRIC or not spans:
        return 0.0
    per_byte = traffic.loads(volume.kind, 1.0, spans, topology)
    return max(
        (load / given for load, given in zip(per_byte, bandwidth, strict=True) if load), default=0.0
    )
