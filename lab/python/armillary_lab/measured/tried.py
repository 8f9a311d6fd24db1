"""Layouts that sources tried for the same job.

A *job* is a model on a number of chips with a batch, a length of its sequences, a framework and its
kernels; a *layout* is the rest of what a source says of a run. Here: jobs and layouts of training
steps, of nanotron's configurations without a result, of Aleph Alpha's table and of those in
`published/tried.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .layouts import Layout
from .published.tried import TableRun
from .training import Training, failures, trainings

SOURCES = {
    "vtrain_single": "vTrain",
    "vtrain_multi": "vTrain",
    "nanotron_h100": "nanotron",
    "simumax_b200": "SimuMax",
    "nemo_megatron_bridge": "Megatron-Bridge",
}
"""The source of groups of training steps with several layouts of one job."""

_KERNELS = ("fp8", "fused_experts", "mode", "lora_rank", "mtp")
"""Statements of a source that are of the job."""
_APART = ("assumed", "format", *_KERNELS)


@dataclass(frozen=True, slots=True)
class Tried:
    """A layout that a source tried."""

    source: str
    job: str
    layout: str
    run: Training | Layout | TableRun
    ran: bool
    step_s: float | None


def ours() -> Iterator[Tried]:
    """Layouts of the laboratory's training steps, and of nanotron's without a result."""
    for run in trainings():
        if run.group in SOURCES and run.iter_time_s is not None and run.grade != "C":
            yield of_training(run)
    yield from map(of_training, failures())


def of_training(run: Training) -> Tried:
    """A measured training step, or a configuration without a result."""
    kind = " ".join(f"{key} {run.extra[key]}" for key in _KERNELS if key in run.extra)
    gpus = f"{run.gpus} {run.gpu}"
    job = f"{run.model.name}, {gpus}, batch {run.global_batch} of {run.seq}, {run.precision}"
    degrees = (f"{key} {getattr(run, key)}" for key in ("tp", "pp", "dp", "cp", "ep", "zero"))
    chunks = f"chunks {run.virtual_stages}, micro-batch {run.micro_batch}"
    others = (f"{key} {value}" for key, value in run.extra.items() if key not in _APART)
    layout = ", ".join((*degrees, chunks, f"recompute {run.recompute}", *others))
    source = SOURCES.get(run.group, run.group)
    ran = run.iter_time_s is not None
    return Tried(source, f"{job} {kind}".strip(), layout, run, ran, run.iter_time_s)


def of_layout(run: Layout) -> Tried:
    """A layout of Aleph Alpha's table."""
    job = f"{run.group}, {run.gpus} GPUs, {run.kernel}"
    layout = (
        f"tp {run.tp}, pp {run.pp}, micro-batch {run.micro_batch}, recompute {run.recompute}, "
        f"sp {run.sp}"
    )
    return Tried("Aleph Alpha", job, layout, run, run.ran, run.step_s)


def of_row(run: TableRun) -> Tried:
    """A layout of DLPerf's or Fugaku's table."""
    job = (
        f"{run.model.name}, {run.gpus} {run.machine}, batch {run.global_batch} of {run.seq}, "
        f"{run.framework}"
    )
    layout = (
        f"tp {run.tp}, pp {run.pp}, dp {run.dp}, micro-batch {run.micro_batch}, recompute "
        f"{run.recompute}"
    )
    return Tried(run.source, job, layout, run, run.ran, run.step_s)
