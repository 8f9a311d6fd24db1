"""`armillary train`: trains a recommendation model for real."""

from __future__ import annotations

import json as json_text
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armillary import __version__
from armillary.cli import completion, output
from armillary.cli.options import Json
from armillary.cli.verb_options import takes
from armillary.errors import InputError, Problem
from armillary.units import counted

from ..settings import RunOptions, Settings

if TYPE_CHECKING:
    from armillary.estimate.roofline import StepParts
    from armillary.model.dlrm import Dlrm

    from ..run.loop import Outcome, Progress

    Bound = tuple[str, StepParts, tuple[str, ...]]
    """A platform, the parts of a step on it, and what was assumed."""

SCHEMA = "armillary.train/1"

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Preset or model file of a DLRM, such as dlrm-small.",
        autocompletion=completion.workloads,
    ),
]


@dataclass(frozen=True, kw_only=True)
class TrainOptions(RunOptions):
    """Restarts and results."""

    restarts: Annotated[int, typer.Option(metavar="K", min=0)] = 0
    """If a process dies, go on from the last checkpoint, up to K times."""
    platform: Annotated[
        str | None,
        typer.Option("--platform", "-p", metavar="P", autocompletion=completion.platforms),
    ] = None
    """Show the roofline of this platform next to the speed, such as one of armillary calibrate for
    this machine."""
    log_dir: Annotated[str | None, typer.Option(metavar="DIR")] = None
    """Write events for TensorBoard and log.jsonl here."""
    json: Json = None

    def settings(self, model: str) -> Settings:
        """The settings of a run of `model`."""
        return Settings(model, **{key.name: getattr(self, key.name) for key in fields(RunOptions)})


@takes(TrainOptions)
def train(model: Model, each: TrainOptions) -> None:
    """Train a recommendation model for real, and score it."""
    with output.guard():
        from armillary.model import load_model
        from armillary.model.dlrm import parse

        from .. import torch_check
        from ..run import launch

        torch_check.require("armillary train", "training needs")
        settings, read = each.settings(model), load_model(model)
        facts = parse(read)
        worker = launch.is_worker()
        if worker:
            settings = launch.of_world(settings)
        settings.check()
        _check(each)
        bound = None
        if not worker or os.environ["RANK"] == "0":
            output.claim({"--json": each.json})
            bound = None if each.platform is None else _roofline(settings, each.platform)
        launch.quiet_threads()
        launch.quiet_logs()
        try:
            if (each.ranks > 1 or each.restarts) and not worker:
                _start(each)
                return
            with launch.worker():
                _run(settings, facts, bound, each.log_dir, each.json, read.notes)
        except KeyboardInterrupt as stop:
            output.interrupted(stop, _kept(settings, each.log_dir))


def _check(each: TrainOptions) -> None:
    """Raises `InputError` if an option that is not a setting is out of range."""
    problems = []
    if each.log_dir == "":
        problems.append(Problem("", "--log-dir", "no path", "the path of a folder"))
    if each.restarts and each.checkpoint is None:
        said = f"{each.restarts} restarts, but no checkpoints"
        problems.append(Problem("", "--restarts", said, "--checkpoint DIR"))
    if problems:
        raise InputError(problems)


def _start(each: TrainOptions) -> None:
    """Starts a process for each rank, and waits for them."""
    from ..run import launch

    launch.spawn(
        each.ranks,
        sys.argv[1:],
        each.threads or max(1, _cores() // each.ranks),
        restarts=each.restarts,
        saves=each.checkpoint is not None,
        say=output.log,
    )


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


def _roofline(settings: Settings, platform: str) -> Bound:
    """Eq. 1 for this training on a platform, whose NPUs are the processes. Raises `InputError`."""
    from armillary.model.sharding import OPTIMIZERS
    from armillary.plan.roofline import roofline
    from armillary.platform import Platform

    if settings.optimizer not in OPTIMIZERS:
        said = f"the roofline does not know the optimizer {settings.optimizer}"
        known = ", ".join(OPTIMIZERS)
        raise InputError([Problem("", "--platform, --optimizer", said, known)])
    target = Platform.load(platform, npus=settings.ranks)
    given: dict[str, object] = {
        "dp": settings.ranks,
        "global_batch": settings.global_batch,
        "precision": settings.precision,
        "gradient_precision": "fp32",
        "table_precision": settings.table_precision,
        "messages": settings.formats.text,
        "optimizer": settings.optimizer,
    }
    assumed = list(target.warnings)
    with ExitStack() as stack:
        if settings.plan is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            given["plan"], moved = _in_memory(settings.plan, folder)
            if moved:
                said = f"assumed: the roofline has {counted(moved, 'table')} of slower memory"
                assumed.append(f"{said} in that of the processes")
        step = roofline(settings.model, target, **given)
    return target.name, step.scaled(1e9), tuple(assumed)


def _in_memory(plan: str, folder: str) -> tuple[str, int]:
    """A plan with all tables in the memory of the processes, as Eq. 1 has no slower memory; and the
    number of tables that are elsewhere in `plan`."""
    from armillary.model.sharding_plan_file import read_plan, write_plan

    found = read_plan(plan)
    tables = tuple(replace(each, tier="device") for each in found.tables)
    path = str(Path(folder) / "plan.json")
    write_plan(replace(found, tables=tables), path)
    return path, sum(each.tier != "device" for each in found.tables)


def _run(
    settings: Settings,
    facts: Dlrm,
    bound: Bound | None,
    log_dir: str | None,
    json: str | None,
    notes: Sequence[str],
) -> None:
    """The run on this rank; rank 0 shows and writes. `notes` are those of the model's file."""
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
            _show(settings, outcome, bound, json, notes)


def _progress(stack: ExitStack) -> Progress | None:
    update = stack.enter_context(output.progress("training", clock=False))
    if update is None:
        return None
    return lambda done, text: update(done, 0.0, text)


def _show(
    settings: Settings,
    outcome: Outcome,
    bound: Bound | None,
    json: str | None,
    notes: Sequence[str],
) -> None:
    from armillary.estimate.roofline import reported

    roofline, warnings = None, list(notes)
    if bound is not None:
        name, step, assumed = bound
        warnings += assumed
        step_ns = 1e9 * settings.global_batch / outcome.rate if outcome.rate else 0.0
        roofline = {"platform": name, **reported(step, settings.global_batch, step_ns)}
    body = {
        "schema": SCHEMA,
        "version": __version__,
        "warnings": warnings,
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
    from armillary.report import words

    from ..report import training

    words.show(training.page(body), output.console())
