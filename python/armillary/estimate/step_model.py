"""How long a step takes as a function of the bandwidth of each dimension.

Here: the model and its evaluation. Not here: its optimum (`design/optimal.py`), what it is made of
(`traffic.py`, `terms.py`).

    w_gd = bytes_gd / bw_d + fixed_gd             how long a collective keeps a dimension busy
    t_g  = max_d (w_gd + fill sum_(e < d) w_ge)   its chunks pipeline; the first reaches d
                                                  through the inner dimensions
    T    = compute + sum over parts of max_k (offset_k + sum_g count_kg t_g)

One part that holds every collective once, with neither `fixed` (latencies) nor `fill` (one chunk of
many), is the model of the paper (LIBRA, arXiv:2109.11762 v1, section IV-C: "MP and DP are running
serially"); further parts and lines say what may overlap. All of it is convex in the bandwidths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepPart:
    """Seconds that some terms add to a step: the largest of a few lines."""

    offsets: Vector
    """[K] seconds."""
    counts: Vector
    """[K, G] how much of each term a line holds."""


@dataclass(frozen=True, eq=False)
class StepModel:
    """A workload's step on a topology of D dimensions, with G terms. Bytes, seconds."""

    name: str
    terms: tuple[str, ...]
    """Names of the collectives."""
    loads: Vector
    """[G, D] bytes that an NPU sends along each dimension."""
    compute: float
    """Seconds of a step that depend on no bandwidth."""
    parts: tuple[StepPart, ...]
    """Parts that make the step longer."""
    fixed: Vector
    """[G, D] seconds of each term on each dimension that depend on no bandwidth: latencies,
    reductions."""
    fill: float = 0.0
    """One over the number of chunks, or 0 for a pipeline that fills at once."""
    repeated: int = 0
    """Terms at the end whose bytes are those of others once more: what they hold up."""

    @property
    def own(self) -> int:
        """Terms that send bytes of their own, the first ones."""
        return len(self.terms) - self.repeated

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""
        return int(self.loads.shape[1])

    @property
    def volume(self) -> Vector:
        """[D] bytes an NPU sends along each dimension in a step."""
        found: Vector = np.sum(self.loads[: self.own], axis=0)
        return found

    def term_times(self, bandwidth: Sequence[float] | Vector) -> Vector:
        """[G] seconds of each term; `bandwidth` in bytes a second. No bandwidth where bytes go
        takes for ever."""
        busy = _over(self.loads, bandwidth) + self.fixed
        filled = busy + self.fill * (busy.cumsum(axis=1) - busy)
        found: Vector = filled.max(axis=1, initial=0.0)
        return found

    def time(self, bandwidth: Sequence[float] | Vector) -> float:
        """Seconds of a step."""
        times = self.term_times(bandwidth)
        return self.compute + sum(
            float((each.offsets + _weighted(each.counts, times)).max()) for each in self.parts
        )

    def communication(self, bandwidth: Sequence[float] | Vector) -> float:
        """Seconds of all terms one after another."""
        return float(np.sum(self.term_times(bandwidth)[: self.own]))

    def utilisation(self, bandwidth: Sequence[float] | Vector) -> float:
        """Bytes sent over bytes that the dimensions of each running collective could have sent,
        0..1.

        The definition that meets the percentages of the paper's Fig. 10 (docs/guides/design.md).
        """
        given = np.asarray(bandwidth, dtype=float)
        offered = np.sum((self.loads > 0) * given, axis=1)[: self.own]
        room = float(np.sum(offered * self.term_times(given)[: self.own]))
        return float(np.sum(self.loads[: self.own])) / room if room else 1.0


def serial(
    name: str, compute: float, terms: Sequence[tuple[str, Sequence[float]]], dimensions: int
) -> StepModel:
    """The paper's model: `compute` seconds, then one collective after another, (name, bytes by
    dimension) each."""
    loads = np.array([each for _, each in terms], dtype=float).reshape(len(terms), dimensions)
    names = tuple(each for each, _ in terms)
    return StepModel(name, names, loads, compute, (everything(len(terms)),), np.zeros_like(loads))


def everything(terms: int) -> StepPart:
    """The part of the paper's model: one term after another."""
    return StepPart(np.zeros(1), np.ones((1, terms)))


def _over(loads: Vector, bandwidth: Sequence[float] | Vector) -> Vector:
    """Bytes over bandwidth, nothing where there are no bytes, for ever where there is no
    bandwidth."""
    given = np.asarray(bandwidth, dtype=float)
    with np.errstate(divide="ignore"):
        found: Vector = np.divide(loads, given, out=np.zeros(loads.shape), where=loads > 0)
    return found


def _weighted(counts: Vector, times: Vector) -> Vector:
    """`counts @ times` in which nothing of what takes for ever is nothing."""
    products = np.multiply(counts, times, out=np.zeros(counts.shape), where=counts > 0)
    found: Vector = products.sum(axis=1)
    return found
