"""Memory of a rank that holds a few units, for tests of single rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from armillary.model.weights import Weights
from armillary.workload.memory import LAYER, Rules, Sizes, on_rank, shares
from armillary.workload.parallelism import Parallelism
from armillary.workload.schedule import Pass
from armillary.workload.summary import Memory

_NOTHING = Rules(0, 0, False, 0, 0, 0, 0, "f")


def unit(weights: Weights, kept: int = 0, tensor: int = 0, place: int = LAYER) -> Sizes:
    """A unit whose parameters are all trained."""
    shapes = weights.total
    return Sizes(weights.dense, weights.expert, 0, 0, kept, shapes, tensor, 0, 0, 0, place)


def states(weights: Weights, par: Parallelism) -> Memory:
    """Weights, gradients and optimizer state, without weights that are gathered."""
    widths = par.bytes.weight, par.bytes.optimizer
    found, _ = on_rank([[unit(weights)]], [], Rules(0, 0, False, 0, 0, *widths, "f"), shares(par))
    gathered = 2 * weights.total * par.bytes.weight if par.zero == 3 else 0
    return replace(found, weights=found.weights - gathered, temporary=0)


def held(passes: Sequence[Pass], sizes: Sequence[int]) -> int:
    """Most that a stage holds if the forward pass of chunk `c` leaves `sizes[c]`."""
    chunks = [[unit(Weights(), size)] for size in sizes]
    return on_rank(chunks, passes, _NOTHING, shares(Parallelism()))[0].activations
