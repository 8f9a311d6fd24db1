"""`armillary bench`: micro-benchmarks of the machine that it runs on."""

from __future__ import annotations

import json as json_text
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from armillary import __version__
from armillary.cli import completion, output
from armillary.cli.options import Json
from armillary.cli.verb_options import takes
from armillary.errors import InputError, Problem, flag

if TYPE_CHECKING:
    from armillary.model.dlrm import Dlrm

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]",
        help="Time the shapes of this recommendation model. Default: a sweep of shapes.",
        autocompletion=completion.workloads,
    ),
]


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options."""

    ranks: Annotated[int, typer.Option(metavar="N")] = 2
    """Ranks, a process each, which work at the same time."""
    global_batch: Annotated[int, typer.Option(metavar="N")] = 2048
    """Samples of a step, over all ranks."""
    threads: Annotated[int | None, typer.Option(metavar="N")] = None
    """Threads of each process. Default: the cores shared out."""
    timeout: Annotated[float, typer.Option(metavar="S")] = 60.0
    """Seconds after which a process waits no longer for others."""
    out: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE")] = None
    """Write the measurements here, for calibrate; - for standard output."""
    json: Json = None


@takes(BenchOptions)
def bench(model: Model = None, *, each: BenchOptions) -> None:
    """Measure this machine: kernels, memory and collectives."""
    with output.guard():
        _check(ranks=each.ranks, global_batch=each.global_batch, threads=each.threads or 1)
        facts = _facts(model)
        from .. import torch_check
        from ..run import launch

        torch_check.require("armillary bench", "the benchmarks need")
        worker = launch.is_worker()
        if not worker or os.environ["RANK"] == "0":
            output.claim({"--json": each.json, "--output": each.out})
        launch.quiet_threads()
        if each.ranks > 1 and not worker:
            cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
            launch.spawn(
                each.ranks,
                sys.argv[1:],
                each.threads or max(1, cores // each.ranks),
            )
            return
        with launch.worker():
            _run(model, facts, each)


def _check(**counts: int) -> None:
    problems = [
        Problem("", flag(name), f"{value} is out of range", "a whole number from 1")
        for name, value in counts.items()
        if value < 1
    ]
    if problems:
        raise InputError(problems)


def _facts(model: str | None) -> Dlrm | None:
    """The model whose shapes are timed. It is read before PyTorch is loaded."""
    from armillary.model import load_model
    from armillary.model.dlrm import parse

    return None if model is None else parse(load_model(model))


def _run(model: str | None, facts: Dlrm | None, each: BenchOptions) -> None:
    """The measurement on this rank; rank 0 shows and writes."""
    from ..bench import Request
    from ..bench import bench as measure
    from ..ranks import world

    threads = each.threads or int(os.environ.get("OMP_NUM_THREADS", "0")) or None
    with world.joined(each.timeout, gpus=world.has_gpus()) as here, ExitStack() as stack:
        progress = None
        if here.rank == 0:
            update = stack.enter_context(output.progress("measuring", clock=False))
            if update is not None:
                progress = lambda done, what: update(done, 0.0, what)  # noqa: E731
        found = {
            "version": __version__,
            **measure(Request(model, each.global_batch, threads), facts, here, progress),
        }
        stack.close()
        if here.rank == 0:
            for path in (each.out, each.json):
                output.write_json(path, json_text.dumps(found, indent=1))
            if "-" not in (each.out, each.json):
                from armillary.report import words

                from ..report import bench as shown

                words.show(shown.page(found), output.console())
