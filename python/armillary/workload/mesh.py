"""The mesh of ranks of a step, with a program for each stage.

Here: axes and groups, and stages that do the same. Not here: what a stage does (`stage.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from .parallelism import Parallelism
from .placement import MIRROR
from .plan import StagePlan
from .program import Program
from .stage import BACKWARD, build_stage, program_key, rings
from .summary import Memory, Summary
from .workload import Workload
from .zero import REPLICAS


def spread(
    name: str,
    par: Parallelism,
    programs: Sequence[Program],
    summary: Summary | None,
    warnings: Sequence[str],
) -> Workload:
    """The workload of programs by stage, or by stage and context-parallel rank."""
    around = len(rings(par))
    used = {group for program in programs for group in program.groups}
    every = _families(par)
    groups = every | {name + BACKWARD: along for name, along in every.items()}
    groups = {name: along for name, along in groups.items() if name in used}
    by = (["cp"] if around > 1 else []) + ([MIRROR, "pp"] if par.both_ways else ["pp"])
    groups = {
        name: [axis for axis in along if axis in dict(_axes(par))] for name, along in groups.items()
    }
    return Workload.mesh(name, _axes(par), groups, by, programs, summary, warnings, alike=around)


def _families(par: Parallelism) -> dict[str, list[str]]:
    """Axes of the ranks of each group."""
    return _GROUPS | (_FOLDED if par.folded > 1 else {})


def steps(par: Parallelism, group: str) -> list[tuple[int, int]]:
    """Ranks of a group: how many there are along each axis, and the ranks from one to the next."""
    along = _families(par)[group]
    found, stride = [], 1
    for name, size in _axes(par):
        if name in along:
            found.append((size, stride))
        stride *= size
    return found


_GROUPS = {
    "tp": ["tp"],
    "cp": ["cp"],
    "dp": ["cp", "ep", "ep_nodes", "dp", REPLICAS, MIRROR],
    "ep": ["ep", "ep_nodes"],
    "ep_node": ["ep"],
    "ep_nodes": ["ep_nodes"],
    "edp": ["cp", "dp", REPLICAS, MIRROR],
    "zero": ["cp", "ep", "ep_nodes", "dp"],
    "ezero": ["cp", "dp"],
    REPLICAS: [REPLICAS],
}
"""Axes along which the ranks of a group differ, of those that the mesh has."""

_FOLDED = {
    "ep": ["tp", "cp", "ep", "ep_nodes"],
    "ep_node": ["tp", "cp", "ep"],
    "edp": ["dp", REPLICAS, MIRROR],
    "ezero": ["dp"],
}
"""The same where whole experts are spread over the tp x cp ranks of a replica first."""


def _axes(par: Parallelism) -> list[tuple[str, int]]:
    """Sizes of the mesh of ranks, fastest first."""
    inner = par.dp // par.expert_replicas // par.replicas
    near = (par.ep_node or par.ep) // par.folded
    return [
        ("tp", par.tp),
        ("cp", par.cp),
        ("ep", near),
        *([("ep_nodes", par.expert_replicas // near)] if par.ep_node else []),
        ("dp", inner),
        (REPLICAS, par.replicas),
        *([(MIRROR, 2), ("pp", par.pp // 2)] if par.both_ways else [("pp", par.pp)]),
    ]


def stage_programs(plan: StagePlan) -> tuple[list[Program], list[Memory]]:
    """A program for each stage, or for each context-parallel rank of each stage where these send to
    each other, and a footprint for each stage; equal ones are shared."""
    known: dict[tuple[object, ...], tuple[list[Program], Memory]] = {}
    programs: list[Program] = []
    memories = []
    for stage in plan.place.stages:
        passes = plan.order(stage)
        key = program_key(plan, stage, passes)
        if key not in known:
            known[key] = build_stage(plan, stage, passes), plan.memory(stage, passes)
        of_stage, memory = known[key]
        programs += of_stage
        memories.append(memory)
    return programs, memories
