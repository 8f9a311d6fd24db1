"""Predicted times of training steps against measured ones, and whether they rank configurations
alike.

An error is `|ln(ours / measured)|`, given as a percentage. Here: language models, with the rows of
DLRM and ResNet-50 (`vision.py`). Not here: predictions (`predict/training_steps.py`)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from armillary.uncertainty import Residual, of

from ..measured.training import FRAMEWORKS, Training
from ..predict import nanotron
from ..predict.training_steps import TimePrediction, predict, predictions
from ..study import Study, StudyRow, analytical, limit
from . import coverage, vision
from .correlation import spearman
from .scatter import scatter

if TYPE_CHECKING:
    from armillary.report.chart import Chart

MEDIAN, NINTH, RANKS, BEST = 7.0, 17.0, 0.9, 5.0
"""Limits: median and 90th percentile of errors, rank correlation, loss by choosing our best,
percent."""

COMPOSED = "vtrain_single"
"""Group whose times are sums: exactly linear in micro-batches and in layers, which no measured
steps are. So its 1,010 rows rest on measurements of 32 kinds of layers (two widths, four degrees of
tensor parallelism, four micro-batches)."""

FORMATS = {"bf16": "16 bits", "fp8": "8 bits", "nvfp4": "4 bits"}
INTERVALS: tuple[Callable[[Residual], str], ...] = (
    lambda each: each.labels["gpu"],
    lambda each: FORMATS[each.labels["format"]],
    lambda each: "models with experts" if each.labels["family"] == "experts" else "dense models",
    lambda each: each.labels["scale"],
)
"""Groups of left-out runs whose intervals are counted."""


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Errors of all and by source, rank correlations and what choosing our best loses; then the
    other models."""
    chosen = analytical(backends)
    return [*(row for backend in chosen for row in _rows(backend)), *vision.rows(chosen)]


def _rows(backend: str) -> Iterator[StudyRow]:
    found = predictions(backend)
    quiet = [each for each in found if each.run.group != "nanotron_h100" or each.run.nodes == 1]
    yield from _left_out(backend)
    yield from _errors("all but nanotron's on several nodes", quiet, backend, goal=True)
    whole = [each for each in quiet if each.run.group != COMPOSED]
    yield from _errors("the same without vTrain's sums on one node", whole, backend)
    for group in FRAMEWORKS:
        same = [each for each in quiet if each.run.group == group]
        yield from _errors(group, same, backend)
    for kind in sorted({_kind(each.run) for each in quiet}):
        same = [each for each in quiet if _kind(each.run) == kind]
        yield from _errors(kind, same, backend)
    yield from _errors("all runs", found, backend)
    many = [each for each in found if each.run.group == "nanotron_h100"]
    for nodes in sorted({each.run.nodes for each in many}):
        same = [each for each in many if each.run.nodes == nodes]
        yield from _errors(f"nanotron_h100, {nodes} nodes", same, backend)
    yield from _errors(
        "nanotron_h100, less what is off by a factor of two",
        [e for e in many if not e.off],
        backend,
    )
    yield from _errors(
        "all runs, if no messages blocked nanotron's hosts", _unblocked(found, backend), backend
    )
    for group in ("vtrain_single", "vtrain_multi", "nanotron_h100"):
        yield from _ranking(group, [each for each in found if each.run.group == group], backend)


def _kind(run: Training) -> str:
    """GPU and number format."""
    return f"{run.gpu.partition('-')[0]}, {run.precision.replace('fp16', 'bf16')}"


def _left_out(backend: str) -> Iterator[StudyRow]:
    """Errors for sources that a fit has not seen (`fit/steps_of_unseen_sources.py`): all, by GPU,
    by source, and by both where a source has several; then how many lie in the intervals of
    steps."""
    if backend != "analytical":
        return
    groups: dict[str, list[float]] = {}
    found = of("steps").residuals
    for each in found:
        gpu, source = each.labels["gpu"], each.source
        names = ["sources left out", f"sources left out, {gpu}", f"{source} left out"]
        if any(other.source == source and other.labels["gpu"] != gpu for other in found):
            names.append(f"{source} left out, {gpu}")
        for name in names:
            groups.setdefault(name, []).extend(map(abs, each.logs))
    for name, logs in sorted(groups.items(), key=lambda group: "sources" not in group[0]):
        ninth = sorted(logs)[math.ceil(0.9 * len(logs)) - 1]
        why = "fitted without the source"
        for what, log in (("median error", statistics.median(logs)), ("90th percentile", ninth)):
            label = f"{name} ({len(logs)}): {what}"
            yield StudyRow(label, backend, limit(None, "<"), percent(log), "%", why)
    yield from coverage.rows(of("steps"), " of steps", INTERVALS)


def _unblocked(found: Sequence[TimePrediction], backend: str) -> list[TimePrediction]:
    """The same runs without what was decided looking at their results (`nanotron.blocked`)."""
    again = (
        predict(each.run, backend, messages=False)
        if each.run.group == "nanotron_h100" and nanotron.blocked(each.run, each.room)
        else each
        for each in found
    )
    return [each for each in again if each is not None]


def percent(log: float) -> float:
    """An error as a percentage."""
    return 100 * (math.exp(abs(log)) - 1)


def _errors(
    name: str, found: Sequence[TimePrediction], backend: str, goal: bool = False
) -> Iterator[StudyRow]:
    if not found:
        return
    logs = sorted(abs(each.log) for each in found)
    ninth = logs[math.ceil(0.9 * len(logs)) - 1]
    ratio = math.exp(statistics.median(each.log for each in found))
    worst = sorted(found, key=lambda each: -abs(each.log))[:3]
    why = f"ours over measured {ratio:.2f}; worst: " + ", ".join(
        f"{e.run.name} {math.exp(e.log):.2f}" for e in worst
    )
    label = f"{name} ({len(found)})"
    middle = percent(statistics.median(logs))
    for what, most, error in (
        ("median error", MEDIAN, middle),
        ("90th percentile", NINTH, percent(ninth)),
    ):
        reference = limit(most if goal else None, "<")
        yield StudyRow(f"{label}: {what}", backend, reference, error, "%", why)


def choices(found: Sequence[TimePrediction]) -> list[list[TimePrediction]]:
    """Configurations of one model on the same number of GPUs of a kind, among which one could
    choose: five at least."""

    def what(each: TimePrediction) -> tuple[str, str, int]:
        return each.run.model.name, each.run.gpu, each.run.gpus

    sets = [list(same) for _, same in groupby(sorted(found, key=what), what)]
    return [same for same in sets if len(same) >= 5]


def agreement(found: Sequence[TimePrediction]) -> float:
    """Rank correlation of our times and measured ones; 0 where either are all the same."""
    return spearman([(each.ours, each.measured) for each in found]) or 0.0


def lost(found: Sequence[TimePrediction]) -> float:
    """By how much a token takes longer on the configuration with room that we say is the fastest
    than on the fastest, percent."""
    with_room = [each for each in found if each.room] or found
    chosen = min(with_room, key=lambda each: each.ours / each.run.global_batch)
    best = min(each.measured / each.run.global_batch for each in found)
    return 100 * (chosen.measured / chosen.run.global_batch / best - 1)


def _ranking(group: str, found: Sequence[TimePrediction], backend: str) -> Iterator[StudyRow]:
    sets = choices(found)
    yield from _rank_rows(group, sets, backend)
    if group == "nanotron_h100":
        few = [same for same in sets if same[0].run.nodes <= 4]
        yield from _rank_rows(f"{group}, up to 4 nodes", few, backend)
        steady = choices([each for each in found if not each.off])
        yield from _rank_rows(f"{group}, less what is off by a factor of two", steady, backend)


def _rank_rows(
    name: str, sets: Sequence[Sequence[TimePrediction]], backend: str
) -> Iterator[StudyRow]:
    if not sets:
        return
    label = f"{name} ({len(sets)} choices of {sum(map(len, sets))} configurations)"
    weighted = sum(agreement(same) * len(same) for same in sets) / sum(map(len, sets))
    worst = min(sets, key=agreement)
    why = (
        f"worst: {worst[0].run.model.name} on {worst[0].run.gpus} GPUs, {agreement(worst):.2f} "
        f"of {len(worst)}"
    )
    least = limit(RANKS, ">")
    yield StudyRow(f"{label}: rank correlation", backend, least, weighted, "", why)
    losses = [lost(same) for same in sets]
    near = sum(loss <= BEST for loss in losses)
    why = f"within {BEST:.0f} % in {near} of {len(losses)}; worst {max(losses):.0f} %"
    most, middle = limit(BEST, "<"), statistics.median(losses)
    yield StudyRow(f"{label}: median loss by our best", backend, most, middle, "%", why)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Our times over measured ones, a point a run."""
    del rows
    records = [
        {
            "run": p.run.name,
            "source": p.run.group,
            "measured": round(p.measured, 4),
            "ours": round(p.ours, 4),
        }
        for p in predictions()
    ]
    return [scatter("training-steps", "Time of a step, ours over measured", "s", records, "source")]


STUDY = Study(
    "Presets' efficiencies, one for each GPU generation; what a source says of its software and "
    "machine. Reference: a "
    "limit that we chose. Rows read off figures (grade C) are left out.",
    rows,
    charts,
)
