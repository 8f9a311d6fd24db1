"""Residuals of serving, of hardware that no host time was fitted to.

`python -m armillary_lab.fit.serving_residuals [--every N]` writes `serving_*.json` of
`python/armillary/uncertainty/data`. The host times of each engine are fitted without one GPU
(`serving.py`: one least-squares step from the values that ship). Then the runs on that GPU are
predicted. A source is an engine on a GPU, so that no interval is judged by the group that it comes
from. Kernels stay those of the GPU: they are fitted to single kernels, not to these runs.

`serving_ttft` and `serving_tpot` are of mean times, `serving_rate` of the tokens a second of a
closed loop. Of a deployment that was measured under several loads, residuals less that of the
middle load are what is left once that load was matched: `times calibrated`."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from armillary.errors import InputError
from armillary.serve import load_engine, serve
from armillary.serve.intervals import labels
from armillary.serve.transfer import transfer
from armillary.uncertainty import Intervals, Residual, calibrated, coverage, write
from armillary.uncertainty.serving import AS_THEY_COME, CALIBRATED, LIKENESS, QUANTITIES
from armillary.uncertainty.tables import DATA, DIGITS

from .. import command
from ..measured.serving import Run, runs
from ..predict.serving import MODELS, PLATFORMS, engines, load
from .serving import KEYS, Values, known, slope, solved, with_values

ENGINES = {"sglang": 3, "vllm": 4, "trtllm": 5}
"""Engines, and N where fits without a GPU take every N-th run."""


@dataclass(frozen=True, slots=True)
class Left:
    """A run, and its times as predicted by a fit without its GPU. Times are seconds."""

    run: Run
    ttft: float
    tpot: float

    def logs(self) -> tuple[float, float, float]:
        """ln(measured / predicted) of TTFT, TPOT and the rate."""
        first, each = self.run.ttft or math.nan, self.run.tpot or math.nan
        tokens = 0.9 * self.run.output - 1
        whole = (first + tokens * each) / (self.ttft + tokens * self.tpot)
        return math.log(first / self.ttft), math.log(each / self.tpot), -math.log(whole)


def shipped(engine: str) -> dict[str, float]:
    """Host times of an engine's file."""
    file = load_engine(engine).file
    return {key: float(getattr(file, key)) for key in KEYS}


def left_out(engine: str, every: int = 1) -> list[Left]:
    """Every N-th run of an engine, from fits without its GPU."""
    found = slope(known(engine, ENGINES[engine]), np.array(list(shipped(engine).values())))
    result: list[Left] = []
    for gpu in sorted({run.gpu for run in runs() if run.engine == engine}):
        kept = solved(found, lambda run, gpu=gpu: run.gpu != gpu)  # type: ignore[misc]
        values = dict(zip(KEYS, map(float, kept), strict=True))
        own = [run for run in runs() if (run.engine, run.gpu) == (engine, gpu)]
        alone = [run for run in own if len(run.pools) == 1][::every]
        apart = [run for run in own if len(run.pools) == 2][:: 4 * every]
        result += _predicted((*alone, *apart), values)
    return result


def _predicted(chosen: Iterable[Run], values: Values) -> Iterable[Left]:
    for run in chosen:
        if run.model not in MODELS or run.gpu not in PLATFORMS or not run.ttft or not run.tpot:
            continue
        try:
            first, *rest = (with_values(engines(run, pool), values) for pool in run.pools)
            if rest:
                way = transfer(first, rest[0])
                served = serve(
                    first, load(run), decode=rest[0], transfer=way, routing="least_loaded"
                )
            else:
                served = serve(first, load(run))
        except InputError:
            continue
        yield Left(run, served.ttft.mean, served.tpot.mean)


def residuals(found: Iterable[Left]) -> dict[str, list[Residual]]:
    """Residuals by quantity: those of a source with equal labels are one."""
    groups: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[float]] = {}

    def add(run: Run, times: str, logs: Iterable[float]) -> None:
        of = {**_labels(run), "times": times}
        for name, log in zip(QUANTITIES, logs, strict=True):
            key = (name, f"{run.engine} on {run.gpu}", tuple(of.items()))
            groups.setdefault(key, []).append(round(log, DIGITS))

    for each in found:
        add(each.run, AS_THEY_COME, each.logs())
    for middle, *others in _deployments(found):
        for each in others:
            pairs = zip(each.logs(), middle.logs(), strict=True)
            add(each.run, CALIBRATED, [log - matched for log, matched in pairs])
    result: dict[str, list[Residual]] = {name: [] for name in QUANTITIES}
    for (name, source, of_group), logs in sorted(groups.items()):
        said = f"{source}, {dict(of_group)['model']}"
        result[name].append(Residual(said, source, dict(of_group), tuple(sorted(logs))))
    return result


def _deployments(found: Iterable[Left]) -> Iterable[list[Left]]:
    """Runs of one deployment with the same lengths, that of the middle load first."""
    groups: dict[tuple[object, ...], list[Left]] = {}
    for each in found:
        run = each.run
        key = (
            run.source, run.engine, run.version, run.gpu, run.model, run.precision, run.prompt,
            run.output, run.pools,
        )  # fmt: skip
        groups.setdefault(key, []).append(each)
    for group in groups.values():
        ordered = sorted(group, key=lambda each: each.run.concurrency)
        ordered.insert(0, ordered.pop((len(ordered) - 1) // 2))
        yield ordered


def _labels(run: Run) -> dict[str, str]:
    described = engines(run, run.pools[-1])
    there = run.concurrency / described.count
    return labels(described, there, apart=len(run.pools) > 1)


def held(name: str, table: Intervals) -> list[str]:
    """Lines of a table: how many runs of left-out groups lie within, by label."""
    lines = []
    for times in (AS_THEY_COME, CALIBRATED):
        own = [pair for pair in table.new_sources() if pair[0].labels["times"] == times]
        widths = sorted(each.width / 2 for residual, each in own for _ in residual.logs)
        for label in ("all", "engine", "gpu", "model", "requests", "pools"):
            for group in coverage(own, lambda each, label=label: each.labels.get(label, "all")):  # type: ignore[misc]
                half = math.expm1(widths[len(widths) // 2])
                cells = (name, times, group.name, f"{group.measurements} ({group.sources})")
                wide = f"{half:.0%}" if label == "all" else ""
                lines.append(f"| {' | '.join(cells)} | {group.part:.0%} | {wide} |")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Writes the tables, and prints how many runs lie within."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.fit.serving_residuals",
        description="Writes residuals of serving on hardware that no host time was fitted to.",
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th run")
    given = parser.parse_args(arguments)
    found = [each for engine in ENGINES for each in left_out(engine, given.every)]
    lines = ["| quantity | times | runs | count (groups) | within | half width |"]
    lines.append("|" + " --- |" * 6)
    for name, rows in residuals(found).items():
        table = calibrated(rows, LIKENESS)
        write(table, DATA / f"serving_{name}.json")
        lines += held(name, table)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
