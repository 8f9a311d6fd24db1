"""The roofline of a recommendation model on a platform: each part of its step by itself, as fast as
the platform allows, put together by Eq. 1 (`estimate/roofline.py`).

    kernel           as a run times it by itself (`Platform.times`), the mean of all ranks
    collective       as simulated on the otherwise idle network, with the mean of all ranks

So imbalance, waiting, the distribution of inputs and whatever disturbs another part are left out: a
step takes longer. Source: Mudigere et al., Neo and ZionEX, ISCA 2022, Appendix B."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from ..api import collective_us
from ..errors import InputError, Problem
from ..estimate.roofline import StepParts, part
from ..model.files import Model
from ..model.messages import Width
from ..model.sharding import TableLoad
from ..platform import AnyPlatform, Platform
from ..units import PS_PER_S, counted
from ..workload.dlrm import resolved
from ..workload.dlrm_flow import DlrmFlow, DlrmRun
from . import probes


def roofline(
    model: str | os.PathLike[str] | Model,
    platform: AnyPlatform,
    **given: object,
) -> StepParts:
    """Seconds of the parts of a step: `roofline("dlrm-neo-a", "zionex", dp=128).total`.

    `given` are the options of the workload.

    Raises:
        InputError: wrong options; a platform without memory bandwidth, or whose kernels last as
            long as a trace recorded.
    """
    run = resolved(model, given)
    count = run.options.dp
    target = platform if isinstance(platform, Platform) else Platform.of(platform, npus=count)
    if target.npus != count:
        said = f"{counted(count, 'NPU')} on a platform that has {target.npus}"
        raise InputError([Problem("", "dp", said, str(target.npus))])
    probes.memory_bandwidth(target)
    forward, backward = _exchanges(run, target)
    top, bottom = _reduced(run, target)
    return StepParts(
        **_kernels(run, target),
        all_to_all_forward=forward,
        all_to_all_backward=backward,
        top_all_reduce=top,
        bottom_all_reduce=bottom,
    )


def _kernels(run: DlrmRun, platform: Platform) -> dict[str, float]:
    """Seconds of the kernels of each part in one iteration."""
    found: Counter[str] = Counter()
    for kind in run.placement.kinds:
        flow = DlrmFlow(run, kind)
        flow.iteration()
        for name, time_ps in platform.times(flow.program):
            found[part(name, computed=True) or ""] += kind.ranks * time_ps
    return {name: total / run.options.dp / PS_PER_S for name, total in found.items() if name}


def _exchanges(run: DlrmRun, platform: Platform) -> tuple[float, float]:
    """Seconds of the exchanges of pooled rows, forward and backward."""
    placement, wires, row = run.placement, run.sizes.wires, run.placement.row
    each, both = placement.npus_per_node, []

    def mean(loads: Sequence[TableLoad], wire: Width) -> float:
        amounts = [wire.bytes(load.dims, load.shards) for load in loads]
        return run.batch * sum(amounts) / max(len(amounts), 1)

    for kind, wire, sums in (
        ("reduce_scatter", wires.forward, wires.reduce_scatter),
        ("all_gather", wires.backward, wires.backward),
    ):
        total = _seconds("all_to_all", mean(placement.whole, wire), platform)
        total += _seconds(kind, run.batch * sums.bytes(row.dims, row.shards), platform)
        if placement.node:
            inside, across = mean(placement.node, sums), mean(placement.node, wire) / each
            inside = inside if kind == "reduce_scatter" else inside / each
            total += probes.group_seconds(platform, each, "node", kind, int(inside))
            total += probes.group_seconds(platform, each, "rail", "all_to_all", int(across))
        both.append(total)
    return both[0], both[1]


def _reduced(run: DlrmRun, platform: Platform) -> tuple[float, float]:
    """Seconds of the all-reduces of the gradients of top MLP and interaction, and of bottom MLP and
    copied tables."""
    alone = run.options.bottom == "first"
    top = sum(layer.parameters for layer in run.model.interaction.layers + run.model.top)
    bottom = 0 if alone else sum(layer.parameters for layer in run.model.bottom)
    copied = run.placement.data.parameters * run.sizes.gradient
    sizes = (run.reduced(top), run.reduced(bottom) + copied)
    seconds_top, seconds_bottom = (_seconds("all_reduce", size, platform) for size in sizes)
    return seconds_top, seconds_bottom


def _seconds(kind: str, size: float, platform: Platform) -> float:
    if platform.npus == 1 or size < 1:
        return 0.0
    return collective_us(kind, int(size), platform) / 1e6
