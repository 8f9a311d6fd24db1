"""A task's constraints on one topology, in numbers and by name."""

from __future__ import annotations

from collections.abc import Sequence

from ..estimate.topology import Topology
from .optimal import Constraint
from .task import BandwidthRange, Task

TOTAL = "bandwidth.total"


def constraints(
    task: Task, topology: Topology, stack: Sequence[str], price: Sequence[float]
) -> tuple[Constraint, ...]:
    """Everything linear that a design of `topology` has to fulfil."""
    dims = len(topology)
    found: list[Constraint] = []
    if task.total is not None:
        found.append(Constraint(TOTAL, (1.0,) * dims, task.total, not task.total_is_most))
    for d in range(dims):
        if task.ranges:
            each = task.ranges[min(d, len(task.ranges) - 1)]
            found += _range(each, f"bandwidth.dimensions[{d}]", d, dims)
        if stack[d] in task.caps:
            found += _range(
                task.caps[stack[d]], f"technologies.{stack[d]} (dimension {d})", d, dims
            )
    bound = [each.bind(stack, price) for each in task.written]
    return (*found, *(each for each in bound if each is not None))


def _range(limits: BandwidthRange, name: str, dimension: int, dims: int) -> list[Constraint]:
    found = []
    if limits.least > 0:
        row = tuple(-1.0 if d == dimension else 0.0 for d in range(dims))
        found.append(Constraint(f"{name}: least", row, -limits.least))
    if limits.most is not None:
        row = tuple(1.0 if d == dimension else 0.0 for d in range(dims))
        found.append(Constraint(f"{name}: most", row, limits.most))
    return found
