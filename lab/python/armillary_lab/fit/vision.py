"""How far efficiencies of kernels carry over: `python -m armillary_lab.fit.vision` fits them
without a source and prints its errors.

A fit is the least mean `|ln(ours / measured)|` over a grid of parts and starts: for DLRM and DCNv2
lookups, starts of a framework, and multiplications on V100 (those on A100 are the preset's, fitted
to language models); for ResNet-50 convolutions, memory and starts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from unittest.mock import patch

from ..measured.vision import Vision, visions
from ..predict import vision

PARTS = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
GRIDS: Mapping[str, Sequence[Sequence[float]]] = {
    "recommendation": (PARTS, (0.15, 0.175, 0.185, 0.2, 0.25), (3, 15, 20, 25, 30)),
    "resnet50": (PARTS, (0.7, 0.75, 0.78, 0.8, 0.85), (3, 15, 25)),
}
"""Part of the peak, part of the memory bandwidth, us a kernel."""

Point = tuple[float, ...]


def error(run: Vision, point: Point) -> float:
    """ln(ours / measured) of a run with a point of its grid."""
    settings = vision.settings(run) | changes(run, point)
    with patch.object(vision, "settings", lambda _: settings):
        return math.log(vision.predict(run) / run.samples_per_s)


def changes(run: Vision, point: Point) -> dict[str, object]:
    """A point of the grid as overrides of a run's platform. Plain cores of V100 and multiplications
    of A100 stay."""
    part, memory, start = point
    found: dict[str, object] = {"npu.compute.kernel_overhead": f"{start} us"}
    if run.model == "resnet50":
        kinds = ("convolution", "elementwise", "normalization", "optimizer")
        found |= {f"npu.compute.memory_efficiency.{kind}": memory for kind in kinds}
        return found | (
            {} if run.precision == "fp32" else {"npu.compute.efficiency.convolution": part}
        )
    found["npu.compute.memory_efficiency.embedding"] = memory
    tensor = run.generation == "V100" and run.precision != "fp32"
    shown = {"npu.compute.efficiency.gemm": part, "npu.compute.sustained": 1}
    return found | (shown if tensor else {})


def fit(
    runs: Sequence[Vision], errors: Mapping[tuple[str, Point], float]
) -> dict[tuple[str, str], Point]:
    """The point of each generation and framework that fits best, lookups or memory being one number
    for all."""
    points = sorted({point for _, point in errors})
    groups: dict[tuple[str, str], list[Vision]] = {}
    for run in runs:
        groups.setdefault((run.generation, run.framework), []).append(run)
    best: tuple[float, dict[tuple[str, str], Point]] = (math.inf, {})
    for memory in sorted({point[1] for point in points}):
        chosen, total = _with(memory, groups, points, errors)
        best = min(best, (total, chosen), key=lambda each: each[0])
    return best[1]


def _with(
    memory: float,
    groups: Mapping[tuple[str, str], Sequence[Vision]],
    points: Sequence[Point],
    errors: Mapping[tuple[str, Point], float],
) -> tuple[dict[tuple[str, str], Point], float]:
    """With one memory, the parts of each generation and the start of each framework."""
    parts, starts = (sorted({point[at] for point in points}) for at in (0, 2))
    generations, frameworks = (sorted({group[at] for group in groups}) for at in (0, 1))
    best: tuple[float, dict[tuple[str, str], Point]] = (math.inf, {})
    for start in itertools.product(starts, repeat=len(frameworks)):
        of, total = dict(zip(frameworks, start, strict=True)), 0.0
        chosen: dict[tuple[str, str], Point] = {}
        for generation in generations:
            mine = [
                (group, run)
                for group, runs in groups.items()
                if group[0] == generation
                for run in runs
            ]
            least, part = min(
                (
                    sum(abs(errors[run.name, (part, memory, of[group[1]])]) for group, run in mine),
                    part,
                )
                for part in parts
            )
            total += least
            chosen |= {(generation, name): (part, memory, of[name]) for name in frameworks}
        best = min(best, (total, chosen), key=lambda each: each[0])
    return best[1], best[0]


def main() -> None:
    """Prints a line a source left out."""
    for name, grid in GRIDS.items():
        runs = [run for run in visions() if (run.model == "resnet50") == (name == "resnet50")]
        points = list(itertools.product(*grid))
        errors = {(run.name, point): error(run, point) for run in runs for point in points}
        for source in sorted({run.source.rpartition(" line")[0] for run in runs}):
            left = [run for run in runs if run.source.startswith(source)]
            rest = [run for run in runs if run not in left]
            found = fit(rest, errors)
            # A framework that no other run used has the start of TensorFlow's other version, or the
            # only one.
            near = {
                run.name: found.get((run.generation, run.framework)) or _any(found, run)
                for run in left
            }
            off = [abs(errors[run.name, near[run.name]]) for run in left]
            print(
                f"{name} without {source} ({len(left)}): {100 * sum(off) / len(off):.1f} %  {found}"
            )


def _any(found: Mapping[tuple[str, str], Point], run: Vision) -> Point:
    same = [point for (generation, _), point in found.items() if generation == run.generation]
    return same[0] if same else next(iter(found.values()))


if __name__ == "__main__":
    main()
