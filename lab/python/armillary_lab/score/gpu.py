"""`python -m armillary_lab.score.gpu FILE.json [-p PLATFORM] [--rows] [--json]`.

Compares a file of lab/bench/python/measure_gpu.py with predictions that no measurement of the file
is in."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from armillary.errors import InputError
from armillary.platform import Platform

from .. import command
from ..measured import gpu
from ..measured.gpu import GpuFile
from ..predict.gpu import Compared, LeftOut, predictions, preset
from .kernels import KernelScore, lines, score

Report = dict[str, Any]
SCHEMA = "armillary.gpu_scores/1"


@dataclass(frozen=True, slots=True)
class GpuScores:
    """A file next to its predictions."""

    file: GpuFile
    platform: str
    rows: list[Compared]
    left: list[LeftOut]

    @property
    def scores(self) -> list[KernelScore]:
        """Errors of each group, in the order of the file."""
        logs: dict[str, list[float]] = {}
        for row in self.rows:
            logs.setdefault(row.group, []).append(math.log(row.ours / row.measured))
        return [score("", group, each) for group, each in logs.items()]

    @property
    def reasons(self) -> list[tuple[str, str, int]]:
        """Group, reason and number of what is left out."""
        counts: dict[tuple[str, str], int] = {}
        for row in self.left:
            counts[row.group, row.reason] = counts.get((row.group, row.reason), 0) + 1
        return [(group, reason, count) for (group, reason), count in counts.items()]


def compare(file: GpuFile, platform: str | None = None) -> GpuScores:
    """Predictions of a file, on the preset of its GPU unless another platform is named.

    Raises:
        InputError: there is no such platform.
    """
    name = platform or preset(file)
    rows: list[Compared] = []
    left: list[LeftOut] = []
    for each in predictions(file, Platform.load(name, {"npus": 1})):
        if isinstance(each, LeftOut):
            left.append(each)
        else:
            rows.append(each)
    return GpuScores(file, name, rows, left)


def main(arguments: Sequence[str]) -> int:
    """Prints the comparison. Returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.score.gpu",
        description="Compares a measured GPU with predictions that its file is not in.",
    )
    parser.add_argument("file", help="JSON of lab/bench/python/measure_gpu.py")
    parser.add_argument("-p", "--platform", help="platform; default: the preset of the GPU")
    parser.add_argument("--rows", action="store_true", help="print each measurement too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    try:
        found = compare(gpu.read(given.file), given.platform)
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if given.json:
        sys.stdout.write(json.dumps(_report(found), indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(found, given.rows)) + "\n")
    return 0


def _report(found: GpuScores) -> Report:
    return {
        "schema": SCHEMA,
        "platform": found.platform,
        "machine": asdict(found.file.machine),
        "date": found.file.date,
        "complete": found.file.complete,
        "scores": [asdict(each) for each in found.scores],
        "left_out": [
            {"group": group, "reason": reason, "count": count}
            for group, reason, count in found.reasons
        ],
        "rows": [asdict(each) for each in found.rows],
    }


def _lines(found: GpuScores, rows: bool) -> Iterator[str]:
    file = found.file
    yield f"{file.machine.device}, PyTorch {file.machine.torch}, {file.date}, on {found.platform}"
    if not file.complete:
        yield "the measurement was interrupted: some parts are missing"
    if file.small:
        yield "small shapes for tests: the numbers say nothing about a GPU"
    yield from lines(found.scores)
    yield from _states(file)
    if rows:
        yield f"{'':<24} {'measured':>12} {'ours':>12} {'error':>7}"
        for row in found.rows:
            error = 100 * (row.ours / row.measured - 1)
            yield (
                f"{row.group:<24} {row.measured:>12.4g} {row.ours:>12.4g} {error:>+6.0f}%"
                f"  {row.name}"
            )
    for group, reason, count in found.reasons:
        yield f"  {count:>5} left out: {group}: {reason}"
    for part in file.parts:
        if part.no_time or part.failed:
            yield f"  {part.name}: {part.no_time} without time, {len(part.failed)} failed"
            yield from (f"    {each.case}: {each.reason}" for each in part.failed)


def _states(file: GpuFile) -> Iterator[str]:
    """Clock and power of the parts, and what the profiler says of the steps."""
    for part in file.parts:
        if part.state is not None:
            yield (
                f"  {part.name}: {part.state.clock_mhz:.0f} MHz, {part.state.power_w:.0f} W,"
                f" {part.state.temperature_c:.0f} C"
            )
    for step in file.steps:
        median = sorted(step.step_us)[len(step.step_us) // 2]
        yield (
            f"  {step.name}: {step.kernels.count} kernels in a step,"
            f" {100 * step.kernels.us / median:.0f} % of its time"
        )


if __name__ == "__main__":
    sys.exit(command.run(main))
