"""`armillary bench`: micro-benchmarks of the machine that it runs on."""

from __future__ import annotations

import json as json_text
import os
import sys
from contextlib import ExitStack
from typing import Annotated

import typer

from armillary import __version__
from armillary.cli import completion, output
from armillary.cli.options import Json
from armillary.errors import InputError, Problem

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]",
        help="Time the shapes of this recommendation model. Default: a sweep of shapes.",
        autocompletion=completion.workloads,
    ),
]
Nproc = Annotated[
    int,
    typer.Option("--nproc", metavar="N", help="Processes, which work at the same time."),
]
Batch = Annotated[
    int, typer.Option("--batch", metavar="N", help="Samples of a step, over all processes.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", metavar="N", help="Threads of each process. Default: the cores shared out."
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="S", help="Seconds after which a process waits no longer for others."
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Write the measurements here, for calibrate."
    ),
]


def bench(
    model: Model = None,
    nproc: Nproc = 2,
    batch: Batch = 2048,
    threads: Threads = None,
    timeout: Timeout = 60.0,
    out: Out = None,
    json: Json = None,
) -> None:
    """Measure this machine: kernels, memory and collectives."""
    with output.guard():
        from .. import torch_check
        from ..run import launch

        torch_check.require("armillary bench", "the benchmarks need")
        _check(nproc=nproc, batch=batch, threads=threads or 1)
        worker = launch.is_worker()
        if not worker or os.environ["RANK"] == "0":
            output.claim({"--json": json, "--output": out})
        launch.quiet_threads()
        if nproc > 1 and not worker:
            cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
            launch.spawn(nproc, sys.argv[1:], threads or max(1, cores // nproc))
            return
        with launch.worker():
            _run(model, batch, threads, timeout, [out, json])


def _check(**counts: int) -> None:
    problems = [
        Problem("", f"--{name}", f"{value} is out of range", "a whole number from 1")
        for name, value in counts.items()
        if value < 1
    ]
    if problems:
        raise InputError(problems)


def _run(
    model: str | None, batch: int, threads: int | None, timeout: float, paths: list[str | None]
) -> None:
    from armillary.model import load_model
    from armillary.model.dlrm import parse

    from ..bench import Request
    from ..bench import bench as measure
    from ..ranks import world

    facts = None if model is None else parse(load_model(model))
    threads = threads or int(os.environ.get("OMP_NUM_THREADS", "0")) or None
    with world.joined(timeout, gpus=world.has_gpus()) as here, ExitStack() as stack:
        progress = None
        if here.rank == 0:
            update = stack.enter_context(output.progress("measuring", clock=False))
            if update is not None:
                progress = lambda done, what: update(done, 0.0, what)  # noqa: E731
        found = {
            "version": __version__,
            **measure(Request(model, batch, threads), facts, here, progress),
        }
        stack.close()
        if here.rank == 0:
            for path in paths:
                output.write_json(path, json_text.dumps(found, indent=1))
            if "-" not in paths:
                from armillary.report import bench as page
                from armillary.report.terminal import emit

                emit(output.console(), page.terminal(found))
