"""`armillary train`: trains a recommendation model for real."""

from __future__ import annotations

import json as json_text
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armillary import __version__
from armillary.cli import completion, output
from armillary.cli.options import Json
from armillary.errors import InputError, Problem

if TYPE_CHECKING:
    from armillary.model.dlrm import Dlrm
    from armillary.model.roofline import StepParts

    from ..run.loop import Outcome, Progress
    from ..settings import Settings

    Bound = tuple[str, StepParts]

SCHEMA = "armillary.train/1"
OUTSIDE = ("platform", "restarts", "log_dir", "json")
"""Options that are not settings of the run."""

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Preset or model file of a DLRM, such as dlrm-small.",
        autocompletion=completion.workloads,
    ),
]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="synthetic|PATH",
        help="Made-up clicks with a known best score, or Criteo's logs: a file, or a folder with "
        "a file for each day.",
    ),
]
Nproc = Annotated[
    int, typer.Option("--nproc", metavar="N", help="Processes. torchrun may start them instead.")
]
Batch = Annotated[
    int, typer.Option("--batch", metavar="N", help="Samples of a step, over all processes.")
]
Accumulate = Annotated[
    int, typer.Option("--accumulate", metavar="N", help="Compute a batch's MLPs in N parts.")
]
Steps = Annotated[int | None, typer.Option("--steps", metavar="N", help="Batches to train on.")]
SamplesCount = Annotated[
    int | None,
    typer.Option(
        "--samples",
        metavar="N",
        help="Samples to train on. Default: 500,000 synthetic ones, or one pass over the logs.",
    ),
]
Optimizer = Annotated[
    str,
    typer.Option(
        "--optimizer",
        metavar="NAME",
        help="Optimizer of the tables: sgd, adagrad, row-wise-adagrad, adam or lamb.",
    ),
]
Rate = Annotated[float, typer.Option("--lr", metavar="X", help="Learning rate of the tables.")]
DenseOptimizer = Annotated[
    str,
    typer.Option(
        "--dense-optimizer",
        metavar="NAME",
        help="Optimizer of the MLPs: sgd, adagrad, adam or adamw.",
    ),
]
DenseRate = Annotated[
    float, typer.Option("--dense-lr", metavar="X", help="Learning rate of the MLPs.")
]
Warmup = Annotated[
    int, typer.Option("--warmup", metavar="N", help="Steps over which learning rates grow from 0.")
]
Decay = Annotated[
    str,
    typer.Option(
        "--decay",
        metavar="NAME",
        help="How learning rates fall to 0 at the end: none, linear, quadratic or cosine.",
    ),
]
WeightDecay = Annotated[
    float, typer.Option("--weight-decay", metavar="X", help="Weight decay of the tables.")
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="fp32|tf32|bf16",
        help="Arithmetic of the MLPs, where the hardware has it.",
    ),
]
TablePrecision = Annotated[
    str,
    typer.Option("--table-precision", metavar="fp32|fp16|bf16", help="Numbers in the tables."),
]
TensorTrain = Annotated[
    str | None,
    typer.Option(
        "--tensor-train",
        metavar="rank=N,rows>=N",
        help="Store large tables as small cores of a rank, such as rank=16,rows>=1e6.",
    ),
]
Device = Annotated[
    str,
    typer.Option("--device", metavar="cpu|cuda", help="Where tables and MLPs are: cuda is a GPU."),
]
EvalEvery = Annotated[
    int | None,
    typer.Option(
        "--eval", metavar="N", help="Evaluate every N steps. There is an evaluation at the end."
    ),
]
EvalSamples = Annotated[
    int | None,
    typer.Option(
        "--eval-samples",
        metavar="N",
        help="Samples of an evaluation. Default: 100,000 synthetic ones, or all held-out lines.",
    ),
]
HeldOut = Annotated[
    int,
    typer.Option(
        "--held-out", metavar="N", help="Days of the logs kept for evaluation: the last ones."
    ),
]
PositiveRate = Annotated[
    float | None,
    typer.Option(
        "--positive-rate",
        metavar="SHARE",
        help="Share of clicks in synthetic data. Default: 0.2562, Criteo's Kaggle set.",
    ),
]
CacheMemory = Annotated[
    str | None,
    typer.Option(
        "--cache-memory",
        metavar="SIZE",
        help="Keep rows in caches of this size in each process, such as 2GiB, with the tables in "
        "slower memory, or in --table-dir.",
    ),
]
TableDir = Annotated[
    str | None,
    typer.Option(
        "--table-dir", metavar="DIR", help="Keep the tables behind the caches on the disk, here."
    ),
]
CachePolicy = Annotated[
    str,
    typer.Option(
        "--cache-policy",
        metavar="lru|lfu",
        help="Which rows leave a cache: the least recently or the least frequently used.",
    ),
]
CachePrecision = Annotated[
    str | None,
    typer.Option(
        "--cache-precision",
        metavar="fp32",
        help="Numbers in the caches, if not those of the tables.",
    ),
]
Plan = Annotated[
    str | None,
    typer.Option("--plan", metavar="FILE", help="Sharding plan: the ranks of each table."),
]
Messages = Annotated[
    str | None,
    typer.Option(
        "--messages",
        metavar="NAME=FORMAT,...",
        help="Formats of what processes send: forward, backward, reduce-scatter and all-reduce as "
        "fp32, fp16, bf16, int8 or fp8, such as forward=fp16,backward=bf16. Default: fp32.",
    ),
]
Pipeline = Annotated[
    bool,
    typer.Option(
        "--pipeline/--no-pipeline",
        help="Exchange what the next batch needs while the MLPs work. It changes no result.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of weights and synthetic samples.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", metavar="N", help="Threads of each process. Default: the cores shared out."
    ),
]
Readers = Annotated[
    int | None,
    typer.Option(
        "--readers",
        metavar="N",
        help="Processes that read data ahead for each process that trains. Default: none.",
    ),
]
ReadersOn = Annotated[
    str,
    typer.Option(
        "--readers-on",
        metavar="local|ray",
        help="Where readers are: processes here, or actors of Ray Data on a cluster.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="S", help="Seconds after which a process waits no longer for others."
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="DIR", help="Write checkpoints of the run here."),
]
CheckpointEvery = Annotated[
    int, typer.Option("--checkpoint-every", metavar="N", help="Steps between checkpoints.")
]
CheckpointPrecision = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-precision",
        metavar="fp16|int8",
        help="Round weights of tables in checkpoints. Default: keep every bit.",
    ),
]
Keep = Annotated[int, typer.Option("--keep", metavar="N", help="Keep the last N checkpoints.")]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on from the last checkpoint, if there is one."),
]
Restarts = Annotated[
    int,
    typer.Option(
        "--restarts",
        metavar="K",
        min=0,
        help="If a process dies, go on from the last checkpoint, up to K times.",
    ),
]
PlatformName = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        metavar="P",
        help="Show the roofline of this platform next to the speed, such as one of `armillary "
        "calibrate` for this machine.",
        autocompletion=completion.platforms,
    ),
]
Trace = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="DIR",
        help="Record PyTorch profiles of some steps here, for `armillary import`.",
    ),
]
TraceSteps = Annotated[
    str,
    typer.Option(
        "--trace-steps", metavar="A:B", help="The first and the last step that are recorded."
    ),
]
LogDir = Annotated[
    str | None,
    typer.Option(
        "--log-dir", metavar="DIR", help="Write events for TensorBoard and log.jsonl here."
    ),
]


def train(
    model: Model,
    data: Data = "synthetic",
    nproc: Nproc = 1,
    batch: Batch = 2048,
    accumulate: Accumulate = 1,
    steps: Steps = None,
    samples: SamplesCount = None,
    optimizer: Optimizer = "row-wise-adagrad",
    learning_rate: Rate = 0.02,
    dense_optimizer: DenseOptimizer = "adam",
    dense_learning_rate: DenseRate = 0.001,
    warmup: Warmup = 0,
    decay: Decay = "linear",
    weight_decay: WeightDecay = 0.0,
    precision: Precision = "fp32",
    table_precision: TablePrecision = "fp32",
    tensor_train: TensorTrain = None,
    cache_memory: CacheMemory = None,
    table_dir: TableDir = None,
    cache_policy: CachePolicy = "lru",
    cache_precision: CachePrecision = None,
    device: Device = "cpu",
    eval_every: EvalEvery = None,
    eval_samples: EvalSamples = None,
    held_out: HeldOut = 1,
    positive_rate: PositiveRate = None,
    plan: Plan = None,
    messages: Messages = None,
    pipeline: Pipeline = True,
    seed: Seed = 0,
    threads: Threads = None,
    readers: Readers = None,
    readers_on: ReadersOn = "local",
    timeout: Timeout = 60.0,
    checkpoint: Checkpoint = None,
    checkpoint_every: CheckpointEvery = 1000,
    checkpoint_precision: CheckpointPrecision = None,
    keep: Keep = 2,
    resume: Resume = False,
    restarts: Restarts = 0,
    trace: Trace = None,
    trace_steps: TraceSteps = "11:20",
    platform: PlatformName = None,
    log_dir: LogDir = None,
    json: Json = None,
) -> None:
    """Train a recommendation model for real, and score it."""
    given = {key: value for key, value in locals().items() if key not in OUTSIDE}
    with output.guard():
        from armillary.model import load_model
        from armillary.model.dlrm import parse

        from .. import torch_check
        from ..run import launch
        from ..settings import Settings

        torch_check.require("armillary train", "training needs")
        settings = Settings(**given)
        facts = parse(load_model(model))
        worker = launch.is_worker()
        if worker:
            settings = launch.of_world(settings)
        settings.check()
        if log_dir == "":
            raise InputError([Problem("", "--log-dir", "no path", "the path of a folder")])
        if not worker or os.environ["RANK"] == "0":
            output.claim({"--json": json})
        bound = None
        if platform is not None and (not worker or os.environ["RANK"] == "0"):
            bound = _roofline(settings, platform)
        launch.quiet_threads()
        launch.quiet_logs()
        if restarts and checkpoint is None:
            said = f"{restarts} restarts, but no checkpoints"
            raise InputError([Problem("", "--restarts", said, "--checkpoint DIR")])
        try:
            if (nproc > 1 or restarts) and not worker:
                each = threads or max(1, _cores() // nproc)
                launch.spawn(
                    nproc,
                    sys.argv[1:],
                    each,
                    restarts=restarts,
                    saves=checkpoint is not None,
                    say=output.log,
                )
                return
            with launch.worker():
                _run(settings, facts, bound, log_dir, json)
        except KeyboardInterrupt as stop:
            output.interrupted(stop, _kept(settings, log_dir))


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _kept(settings: Settings, log_dir: str | None) -> str:
    """Sentence about the files that an interrupted run leaves."""
    from ..checkpoint.folder import resumed_step

    if settings.checkpoint is not None:
        step = resumed_step(settings.checkpoint, True)
        if step is not None:
            return f"; --resume goes on from step {step:,} in {settings.checkpoint}"
    written = log_dir or settings.table_dir or settings.trace or settings.checkpoint
    lost = "" if written else "; no file was written"
    if settings.checkpoint is not None:
        return f"{lost}; there is no checkpoint yet, so all steps are lost"
    return f"{lost}; all steps are lost: --checkpoint DIR would have kept them"


_ROOFLINE_OPTIMIZERS = {
    "sgd": "sgd",
    "adagrad": "adagrad",
    "row-wise-adagrad": "rowwise_adagrad",
}
"""Optimizers of tables whose traffic the model of a step has, and what it calls them."""
_WIDTHS = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


def _roofline(settings: Settings, platform: str) -> Bound:
    """Eq. 1 for this training on a platform, whose NPUs are the processes. Raises `InputError`."""
    from armillary.plan.roofline import roofline
    from armillary.platform import Platform

    if settings.optimizer not in _ROOFLINE_OPTIMIZERS:
        said = f"the roofline does not know the optimizer {settings.optimizer}"
        known = ", ".join(_ROOFLINE_OPTIMIZERS)
        raise InputError([Problem("", "--platform, --optimizer", said, known)])
    target = Platform.load(platform, npus=settings.nproc)
    given: dict[str, object] = {
        "dp": settings.nproc,
        "global_batch": settings.batch,
        "width": _WIDTHS[settings.precision],
        "gradient_width": 4,
        "embedding_width": _WIDTHS[settings.table_precision],
        "messages": settings.messages or "forward=fp32",
        "optimizer": _ROOFLINE_OPTIMIZERS[settings.optimizer],
    }
    with ExitStack() as stack:
        if settings.plan is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            given["plan"] = _in_memory(settings.plan, folder)
        step = roofline(settings.model, target, **given)
    return target.name, step.scaled(1e9)


def _in_memory(plan: str, folder: str) -> str:
    """A plan with all tables in the memory of the processes: Eq. 1 has no slower memory."""
    from armillary.model.sharding_plan_file import read_plan, write_plan

    found = read_plan(plan)
    tables = tuple(replace(each, tier="device") for each in found.tables)
    path = str(Path(folder) / "plan.json")
    write_plan(replace(found, tables=tables), path)
    return path


def _run(
    settings: Settings, facts: Dlrm, bound: Bound | None, log_dir: str | None, json: str | None
) -> None:
    """The run on this rank; rank 0 shows and writes."""
    from ..checkpoint.folder import resumed_step
    from ..ranks import world
    from ..run import loop
    from ..run.logs import Logs

    gpus = settings.device == "cuda"
    with world.joined(settings.timeout, gpus=gpus) as here, ExitStack() as stack:
        progress = write = None
        if here.rank == 0:
            progress = _progress(stack)
            resumed = resumed_step(settings.checkpoint, settings.resume)
            write = stack.enter_context(Logs(log_dir, resumed)).write if log_dir else None
        outcome = loop.train(settings, facts, here, progress=progress, write=write)
        stack.close()
        if here.rank == 0:
            _show(settings, outcome, bound, json)


def _progress(stack: ExitStack) -> Progress | None:
    update = stack.enter_context(output.progress("training", clock=False))
    if update is None:
        return None
    return lambda done, text: update(done, 0.0, text)


def _show(settings: Settings, outcome: Outcome, bound: Bound | None, json: str | None) -> None:
    from armillary.model.roofline import reported

    roofline = None
    if bound is not None:
        name, step = bound
        step_ns = 1e9 * settings.batch / outcome.rate if outcome.rate else 0.0
        roofline = {"platform": name, **reported(step, settings.batch, step_ns)}
    body = {
        "schema": SCHEMA,
        "version": __version__,
        "settings": asdict(settings),
        "steps": outcome.steps,
        "samples": outcome.samples,
        "seconds": outcome.seconds,
        "samples_per_second": outcome.rate,
        "roofline": roofline,
        "evaluations": outcome.evaluations,
        "bound": outcome.bound,
        "tensor_trains": outcome.tensor_trains,
        "cache": outcome.cache,
        "checkpoints": outcome.checkpoints,
        "trace": outcome.trace,
    }
    output.write_json(json, json_text.dumps(body, indent=2, allow_nan=False))
    if json == "-":
        return
    from armillary.report import training
    from armillary.report.terminal import emit

    emit(output.console(), training.terminal(body))
