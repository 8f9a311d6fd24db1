"""Decoder-only transformers: GPT, Llama and their like, trained with every parallelism of `parallelism.py`.

Here: from a model and its parallelism to a workload with its summary. Not here: the parts, which are in
`architecture.py` (counts), `layer.py` (what a layer does), `schedule.py` (pipelines), `stage.py` (a stage's program)
and `memory.py`.
"""

from __future__ import annotations

import os
from typing import Unpack

from ..errors import InputError
from .architecture import Decoder, active_parameters, decoder, parameters, step_flops
from .layer import Setting
from .models import Model, load_model
from .parallelism import EXPERT_OPTIONS, Options, Parallelism, parallelism, takes_options
from .program import Program
from .schedule import bubble_share
from .stage import Plan, build_stage, program_key, rings
from .summary import Memory, RankClass, Summary
from .workload import Workload
from .zero import REPLICAS


@takes_options(*EXPERT_OPTIONS)
def transformer(model: str | os.PathLike[str] | Model, **options: Unpack[Options]) -> Workload:
    """One training step of the dense decoder `model`: a preset, a model file, or a Hugging Face `config.json`.

    `transformer("gpt3-175b", tp=16, dp=64)`. The options are the fields of `Parallelism`. There are tp x cp x dp x pp
    ranks, tp fastest and pp slowest; groups are `tp`, `cp`, `dp` (all ranks with the same weights), and with
    `zero_group` `zero` (ranks that a shard is split over) and `replica` (those with the same shard). Raises
    `InputError` listing every problem.
    """
    return generate(load_model(model), "transformer", options)


def footprints(model: str | os.PathLike[str] | Model, **options: Unpack[Options]) -> list[Memory]:
    """What a rank of each pipeline stage holds at its peak, first stage first, bytes: the memory in the summary of
    `transformer` or `moe` with these options, without making the workload.

    Raises `InputError` listing every problem.
    """
    found = load_model(model)
    shape = decoder(found)
    plan = Plan(Setting(shape, parallelism(shape, found.name, options)))
    return [plan.memory(stage, plan.order(stage)) for stage in range(plan.at.par.pp)]


def generate(model: Model, family: str, options: Options) -> Workload:
    """The workload of a decoder of `family`, with its summary."""
    if model.family != family:
        said = f"a model of the family {model.family!r}"
        raise InputError([model.problem("family", said, f"{family}; armillary.workload.build takes any")])
    shape = decoder(model)
    par = parallelism(shape, model.name, options)
    plan = Plan(Setting(shape, par))
    programs, memories = _programs(plan)
    around = len(rings(par))
    summary = _summary(model, plan, programs[::around], memories)
    used = {volume.group for program in programs for volume in program.volumes}
    groups = {name: along for name, along in _GROUPS.items() if name in used}
    by = ["cp", "pp"] if around > 1 else ["pp"]
    return Workload.mesh(model.name, _axes(par), groups, by, programs, summary, alike=around)


_GROUPS = {
    "tp": ["tp"],
    "cp": ["cp"],
    "dp": ["cp", "ep", "dp", REPLICAS],
    "ep": ["ep"],
    "edp": ["cp", "dp", REPLICAS],
    "zero": ["cp", "ep", "dp"],
    "ezero": ["cp", "dp"],
    REPLICAS: [REPLICAS],
}
"""Axes along which the ranks of a group differ."""


def _axes(par: Parallelism) -> list[tuple[str, int]]:
    """Sizes of the mesh of ranks, fastest first."""
    inner = par.dp // par.ep // par.replicas
    return [("tp", par.tp), ("cp", par.cp), ("ep", par.ep), ("dp", inner), (REPLICAS, par.replicas), ("pp", par.pp)]


def _programs(plan: Plan) -> tuple[list[Program], list[Memory]]:
    """A program for each stage, or for each context-parallel rank of each stage where these send to each other, and a
    footprint for each stage; equal ones are shared."""
    known: dict[tuple[object, ...], tuple[Program, Memory]] = {}
    programs, memories = [], []
    for stage in range(plan.at.par.pp):
        passes = plan.order(stage)
        key = program_key(plan, stage, passes)
        for ring in rings(plan.at.par):
            if (key, ring) not in known:
                known[key, ring] = build_stage(plan, stage, passes, ring), plan.memory(stage, passes)
            program, memory = known[key, ring]
            programs.append(program)
        memories.append(memory)
    return programs, memories


def _summary(model: Model, plan: Plan, programs: list[Program], memories: list[Memory]) -> Summary:
    shape, par = plan.at.model, plan.at.par
    flops = step_flops(shape, par.global_batch or 0, par.seq or 0, _repeated(par))
    ranks = par.world // par.pp
    classes = [
        RankClass(f"stage {stage}", ranks, program.operations, program.volumes, memory)
        for stage, (program, memory) in enumerate(zip(programs, memories, strict=True))
    ]
    return Summary(
        model=model.name,
        family=model.family,
        ranks=par.world,
        parameters=parameters(shape),
        active_parameters=active_parameters(shape),
        batch=par.global_batch or 0,
        flops=flops.model,
        hardware_flops=flops.hardware,
        bubble=bubble_share(par.schedule, par.pp, par.micro_batches, par.virtual_stages),
        classes=tuple(classes),
        notes=tuple(_notes(shape, par)),
        tokens=(par.global_batch or 0) * (par.seq or 0),
    )


def _repeated(par: Parallelism) -> str:
    """The kind of recomputation, as `step_flops` calls it."""
    if par.recompute == "ops":
        return "ops, sums kept" if par.sp and par.tp > 1 else "ops"
    return "full, early stop" if par.recompute == "full" and par.early_stop else par.recompute


def _notes(shape: Decoder, par: Parallelism) -> list[str]:
    """What was chosen for the caller, and options without effect."""
    notes = [f"{_micro_batches(par)} of {par.micro_batch} x {par.seq} tokens a replica, {par.schedule}"]
    parts = par.pp * par.virtual_stages
    if shape.layers % parts:
        notes.append(f"{shape.layers} layers over {parts} parts: embedding and head count as a layer each")
    if par.micro_batches < par.pp:
        notes.append(f"{_micro_batches(par)} can't keep the pipeline's {par.pp} stages busy at once")
    if shape.vocabulary % par.tp:
        notes.append(f"the vocabulary of {shape.vocabulary} is padded to a multiple of tp {par.tp}")
    if not shape.kv_rank and shape.kv < par.tp:
        notes.append(f"{shape.kv} heads of keys and values are replicated over tp {par.tp}")
    if par.sp and par.tp == 1:
        notes.append("sp has no effect with tp 1")
    if par.early_stop and par.recompute != "full":
        notes.append(f"early_stop has no effect with recompute {par.recompute}")
    if par.cp_comm_type and par.cp == 1:
        notes.append("cp_comm_type has no effect with cp 1")
    if par.precision != "fp8" and (par.fp8_recipe != "tensorwise" or par.fp8_param_gather):
        notes.append(f"fp8_recipe and fp8_param_gather have no effect with {par.precision}")
    if par.shards and par.data == 1:
        notes.append(f"ZeRO {par.shards} has no effect with dp x cp 1")
    if par.bucket_mb is not None and par.data == 1:
        notes.append("bucket_mb has no effect with dp x cp 1")
    return notes


def _micro_batches(par: Parallelism) -> str:
    return "1 micro-batch" if par.micro_batches == 1 else f"{par.micro_batches} micro-batches"
