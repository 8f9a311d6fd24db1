"""The roofline of a recommendation model on a platform: each part of its step by itself, as fast as
the platform allows, put together by Eq. 1 (`model/roofline.py`).

    GEMM             max(operations / (peak x efficiency), bytes / (bandwidth x efficiency))
    lookup, update   (bytes + rows x row_access) / (bandwidth x efficiency), the mean of all ranks
    collective       as simulated on the otherwise idle network, with the mean of all ranks

So imbalance, waiting, launches, the distribution of inputs and whatever disturbs another part are
left out: a step takes longer. Source: Mudigere et al., Neo and ZionEX, ISCA 2022, Appendix B."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..api import collective_us
from ..errors import InputError, Problem
from ..model.dlrm import Dense
from ..model.files import Model
from ..model.gemm import Gemm
from ..model.messages import Width
from ..model.roofline import StepParts
from ..model.sharding import TableLoad
from ..platform import AnyPlatform, Platform
from ..units import counted
from ..workload.dlrm import resolved
from ..workload.dlrm_flow import DlrmRun, dense_layers, lookup, update


@dataclass(frozen=True, slots=True)
class _Npu:
    """What an NPU achieves: operations per second on the model's numbers, bytes per second by kind
    of kernel."""

    gemm: float
    gemm_bytes: float
    lookup_bytes: float
    update_bytes: float
    elementwise_bytes: float
    row_access: int
    """Bytes that each row of a table costs in addition."""

    def product(self, shape: Gemm, width: int) -> float:
        """Seconds of a matrix multiplication."""
        m, n, k = shape.m, shape.n, shape.k
        moved = shape.batch * width * (m * k + k * n + m * n)
        return max(shape.operations / self.gemm, moved / self.gemm_bytes)


def roofline(
    model: str | os.PathLike[str] | Model,
    platform: AnyPlatform,
    **given: object,
) -> StepParts:
    """Seconds of the parts of a step: `roofline("dlrm-neo-a", "zionex", dp=128).total`.

    `given` are the options of the workload.

    Raises:
        InputError: wrong options; a platform without peak or memory bandwidth.
    """
    run = resolved(model, given)
    count = run.options.dp
    target = platform if isinstance(platform, Platform) else Platform.of(platform, npus=count)
    if target.npus != count:
        said = f"{counted(count, 'NPU')} on a platform that has {target.npus}"
        raise InputError([Problem("", "dp", said, str(target.npus))])
    npu = _npu(target, run.sizes.dense)
    bottom, middle, top = _dense(run, npu)
    forward, backward = _exchanges(run, target)
    tables = [_tables(run, rank, npu.row_access) for rank in range(count)]
    looked, updated = (sum(parts) / count for parts in zip(*tables, strict=True))
    reduced = _reduced(run, target)
    return StepParts(
        bottom_forward=bottom[0],
        bottom_backward=bottom[1],
        lookup=looked / npu.lookup_bytes,
        update=updated / npu.update_bytes,
        all_to_all_forward=forward,
        all_to_all_backward=backward,
        interaction_forward=middle[0],
        interaction_backward=middle[1],
        top_forward=top[0],
        top_backward=top[1],
        top_all_reduce=reduced[0],
        bottom_all_reduce=reduced[1],
    )


def _npu(platform: Platform, width: int) -> _Npu:
    npu = platform.describe()["npu"]
    bandwidth, peak = npu.get("memory_bandwidth"), npu.get("peak_flops")
    for key, value, allowed in (
        ("npu.memory.bandwidth", bandwidth, "such as 1550 GB/s"),
        ("npu.peak", peak, "such as 312 TFLOPS"),
    ):
        if not value:
            raise InputError([Problem(platform.source, key, "is missing", allowed)])
    settings = npu.get("compute_settings", {})
    by_type = settings.get("peak_by_type_flops", {})
    peak = by_type.get({1: "fp8", 4: "fp32"}.get(width, "")) or peak
    reached, moved = (settings.get(key, {}) for key in ("efficiency_ppm", "memory_efficiency_ppm"))
    sustained, scale = (
        settings.get(key, 10**6) / 10**6 for key in ("sustained_ppm", "speedup_ppm")
    )

    def bytes_of(kernel: str) -> float:
        return float(bandwidth * moved.get(kernel, 10**6) / 10**6 * scale)

    return _Npu(
        peak * reached.get("gemm", 10**6) / 10**6 * sustained * scale,
        bytes_of("gemm"),
        bytes_of("embedding"),
        bytes_of("embedding_update"),
        bytes_of("elementwise"),
        settings.get("row_access_bytes", 0),
    )


def _dense(run: DlrmRun, npu: _Npu) -> list[tuple[float, float]]:
    """Forward and backward seconds of bottom MLP, interaction and top MLP."""
    width, samples = run.sizes.dense, run.sizes.local_batch
    here = [layer for layer, _ in dense_layers(run, run.placement.whole[0])]
    first = run.model.bottom[0]

    def layers(found: Iterable[Dense]) -> tuple[float, float]:
        forward = backward = 0.0
        for layer in found:
            n, k = layer.outputs, layer.inputs
            forward += npu.product(Gemm(samples, n, k), width)
            backward += npu.product(Gemm(n, k, samples), width)
            if layer is not first:
                backward += npu.product(Gemm(samples, k, n), width)
        return forward, backward

    shape = run.model.interaction
    dots = shape.gemm(samples)
    moved = samples * (shape.inputs + shape.outputs) * width / npu.elementwise_bytes
    forward, backward = layers(shape.layers)
    if dots is None:
        forward, backward = forward + moved, backward + moved
    else:
        forward += npu.product(dots, width)
        backward += 2 * npu.product(dots, width)
    bottom = layers(layer for layer in run.model.bottom if layer in here)
    return [bottom, (forward, backward), layers(run.model.top)]


def _tables(run: DlrmRun, rank: int, row_access: int) -> tuple[int, int]:
    """Bytes of lookup and of update on a rank, with what their rows cost in addition."""
    here = run.placement.on(rank)
    looked, updated = lookup(run, *here), update(run, *here)
    return looked.bytes + looked.rows * row_access, updated.bytes + updated.rows * row_access


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
        total += _seconds("all_to_all", mean(placement.node, wire) / each, platform)
        if placement.node:
            dims = platform.describe()["fabric"]["dims"]
            total += mean(placement.node, sums) * (each - 1) / each / dims[0]["link_bandwidth"]
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
    return tuple(_seconds("all_reduce", size, platform) for size in sizes)  # type: ignore[return-value]


def _seconds(kind: str, size: float, platform: Platform) -> float:
    if platform.npus == 1 or size < 1:
        return 0.0
    return collective_us(kind, int(size), platform) / 1e6
