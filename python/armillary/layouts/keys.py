"""The options of a layout that decide each of its parts: layouts with equal keys share the part."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from operator import attrgetter

from ..workload.parallelism import Parallelism


def mesh_key(par: Parallelism) -> Hashable:
    """All that decides where the ranks of a layer are."""
    return (
        par.tp,
        par.cp,
        par.ep,
        par.etp,
        par.ep_node,
        par.world,
        par.cp > 1 and par.cp_comm_type == "p2p",
    )


def rank_key(par: Parallelism) -> Hashable:
    """All that decides where any ranks are."""
    return (
        par.tp,
        par.cp,
        par.ep,
        par.etp,
        par.ep_node,
        par.dp,
        par.pp,
        par.zero_group,
        par.both_ways,
    )


def stage_key(par: Parallelism) -> Hashable:
    """All that decides where the next stage is."""
    return par.tp * par.data, par.pp, par.both_ways


def size_key(par: Parallelism) -> Hashable:
    """All that decides how many parameters a rank has of a unit."""
    return par.tp, par.ep, par.etp, par.mtp, par.lora_rank, par.lora_modules


def data_key(par: Parallelism) -> Hashable:
    """All else that decides what data parallelism does."""
    return (
        par.zero,
        par.precision,
        par.moments,
        par.fp32_gradients,
        par.fp8_param_gather,
        par.overlap_grad_reduce,
        par.overlap_param_gather,
        par.bucket_mb,
        par.offload,
        par.kernels,
    )


_OUTSIDE = frozenset(
    (
        "pp",
        "dp",
        "zero",
        "zero_group",
        "global_batch",
        "schedule",
        "overlap_passes",
        "virtual_stages",
        "layers_per_stage",
        "recompute_layers",
        "offload",
        "in_switch",
        "ranks",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "bucket_mb",
        "framework",
        "framework_set",
    )
)
"""Options that do not change what a layer does."""
_INSIDE = attrgetter(*(each.name for each in fields(Parallelism) if each.name not in _OUTSIDE))


def block_key(par: Parallelism) -> Hashable:
    """All that decides what a rank does for a layer, and where its ranks are."""
    return mesh_key(par), _INSIDE(par), par.recompute_layers is not None
