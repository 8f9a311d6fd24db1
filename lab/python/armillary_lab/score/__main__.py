"""`python -m armillary_lab.score FILE [--json] [--only KIND]`: FILE.json, or FILE.csv with kernels,
layouts or requests to servers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from armillary.errors import ArmillaryError, InputError
from armillary.kernels.tables import TABLES, Left, read
from armillary.uncertainty import Coverage

from .. import command
from ..measured import layouts
from ..measured.published import file, steps, tables
from ..measured.published import vision as published_vision
from ..measured.published.file import Row
from ..measured.training import Training
from ..measured.vision import Vision
from ..predict import collectives, kernels, measured_kernels, peak_memory
from ..predict.measured_kernels import Predicted
from ..predict.peak_memory import MemoryPrediction
from ..predict.plans import predict as predict_plan
from ..predict.training_steps import TimePrediction, predict
from ..predict.vision import RatePrediction, predicted
from . import kernels as single
from . import plans, serving
from . import published as scores
from .choices import Summary, choices, summaries
from .coverage import WITHIN, said
from .published import Ranking, Score

Report = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R")
_NAME = 46
"""Columns of a name."""
_WITHIN = f"measurements {WITHIN}, and the range that few sources leave"


def main(arguments: Sequence[str]) -> int:
    """Prints the scores of a file. Returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.score",
        description="Predicts the measurements of a file, and prints how far off predictions are.",
    )
    parser.add_argument(
        "file", help="JSON with collectives, training, mlperf and compute, or a CSV table"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--only", choices=file.KINDS, action="append", help="kind of rows; may be given again"
    )
    given = parser.parse_args(arguments)
    try:
        if given.file.endswith((".csv", ".csv.gz")):
            return _table(given.file, given.json)
        rows = file.read(given.file)
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    kinds = given.only or file.KINDS
    if not any(getattr(rows, kind) for kind in kinds):
        sys.stderr.write(f"error: {given.file}: has no rows of {' or '.join(kinds)}\n")
        return 2
    report: Report = {}
    if "collectives" in kinds and rows.collectives:
        report["collectives"] = _collectives(rows.collectives)
    if "training" in kinds and rows.training:
        groups = published_vision.GROUPS
        models = [row for row in rows.training if row["group"] not in groups]
        if models:
            report["training"] = _training(models, steps.training)
            report["memory"] = _memory(models)
        if len(models) < len(rows.training):
            report["vision"] = _vision([row for row in rows.training if row["group"] in groups])
    if "mlperf" in kinds and rows.mlperf:
        report["mlperf"] = _training(rows.mlperf, steps.submission)
    if "compute" in kinds and rows.compute:
        report["compute"] = _kernels(rows.compute)
    return _print(report, given.json)


def _print(report: Report, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps(report, indent=1, default=_plain) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(report)) + "\n")
    return 0


def _table(path: str, as_json: bool) -> int:
    """Prints the scores of a table of kernels, of layouts or of served requests. Raises
    `InputError` for what is none."""
    if path.endswith(".gz"):
        return _table_of_kernels(path, as_json)
    if layouts.holds(path) or tables.holds(path, tables.LAYOUTS):
        return _print({"plans": _plans(path)}, as_json)
    if tables.holds(path, tables.SERVING):
        return _print({"serving": _serving(path)}, as_json)
    return _table_of_kernels(path, as_json)


def _serving(path: str) -> Report:
    """Scores of runs of inference engines, and of their requests."""
    if tables.holds(path, tables.SERVING[3:]):
        return {"predicted": 0, "left_out": scores.reasons(tables.read(path))}
    predicted, left, found = serving.of_file(path)
    return {"predicted": predicted, "left_out": scores.reasons(left), "scores": found}


def _plans(path: str) -> Report:
    """Scores of the steps of layouts, and of the choice of one for each job."""
    rows, left = plans.read(path)
    found, more = _each(plans.known(rows), "layouts", predict_plan)
    return {
        "predicted": len(found),
        "left_out": scores.reasons([*left, *more]),
        "scores": scores.of_layouts([each for each in found if each.timed]),
        "choices": summaries(choices(found)),
    }


def _table_of_kernels(name: str, as_json: bool) -> int:
    found: list[Predicted] = []
    left: list[Left] = []
    measured = list(read(name, TABLES))
    left += [row for row in measured if isinstance(row, Left)]
    for each in measured_kernels.predict(row for row in measured if not isinstance(row, Left)):
        if isinstance(each, Left):
            left.append(each)
        else:
            found.append(each)
    each_scores = single.scores(found)
    reasons = scores.reasons(left)
    if as_json:
        report = {"predicted": len(found), "left_out": reasons, "scores": each_scores}
        sys.stdout.write(json.dumps({"kernels": report}, indent=1, default=_plain) + "\n")
        return 0
    lines = [f"kernels: {len(found)} predicted, {len(left)} left out", *single.lines(each_scores)]
    lines += [f"  {count:>5} left out: {reason}" for reason, count in reasons]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _collectives(rows: Sequence[Row]) -> Report:
    found, left = _each(rows, "sweeps", collectives.predict)
    return {
        "predicted": len(found),
        "left_out": scores.reasons(left),
        "scores": scores.of_sweeps(found),
        "coverage": scores.coverage(found),
        "rankings": [each for each in [scores.sweep_ranking(found)] if each is not None],
    }


def _training(rows: Sequence[Row], read: Callable[[Row], Training | Left]) -> Report:
    found, left = _each(rows, "steps", lambda row: _step(read(row)))
    return {
        "predicted": len(found),
        "left_out": scores.reasons(left),
        "scores": scores.of_steps(found),
        "coverage": scores.step_coverage(found),
        "rankings": scores.rankings(found),
    }


def _memory(rows: Sequence[Row]) -> Report:
    """Scores of peak memory, of rows that state it."""
    found, left = _each(rows, "memory", lambda row: _peak(steps.training(row)))
    return {
        "predicted": len(found),
        "left_out": scores.reasons(left),
        "scores": scores.of_memory(found),
    }


def _vision(rows: Sequence[Row]) -> Report:
    """Scores of training of image and recommendation models."""
    found, left = _each(rows, "vision", lambda row: _rate(published_vision.run(row)))
    return {
        "predicted": len(found),
        "left_out": scores.reasons(left),
        "scores": scores.of_vision(found),
    }


def _rate(run: Vision | Left) -> RatePrediction | Left:
    return run if isinstance(run, Left) else predicted(run)


def _kernels(rows: Sequence[Row]) -> Report:
    found, left = _each(rows, "kernels", kernels.predict)
    return {
        "predicted": len(found),
        "left_out": scores.reasons(left),
        "scores": scores.of_kernels(found),
    }


def _peak(run: Training | Left) -> MemoryPrediction | Left:
    if isinstance(run, Left):
        return run
    if run.memory_gib is None:
        return Left("states no memory")
    if run.captured:
        return Left("memory of captured models is not predicted")
    found = peak_memory.predict(run)
    return found or Left("the layout can't be built")


def _step(run: Training | Left) -> TimePrediction | Left:
    if isinstance(run, Left):
        return run
    if run.grade == "C":
        return Left("read off a figure or a slide (grade C)")
    try:
        found = predict(run)
    except ArmillaryError as error:
        return Left(f"not predicted: {file.problem(error)}")
    return found or Left("the layout can't be built: a dimension does not divide")


def _each(
    rows: Sequence[R], what: str, predict_one: Callable[[R], T | Left]
) -> tuple[list[T], list[Left]]:
    """Predictions, and why the other rows have none. Shows progress on a terminal."""
    found: list[T] = []
    left: list[Left] = []
    for index, row in enumerate(rows):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{what}: {index + 1} of {len(rows)} ")
            sys.stderr.flush()
        result = predict_one(row)
        if isinstance(result, Left):
            left.append(result)
        else:
            found.append(result)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    return found, left


def _lines(report: Report) -> list[str]:
    lines: list[str] = []
    for kind, found in report.items():
        left = sum(count for _, count in found["left_out"])
        lines += ["", f"{kind}: {found['predicted']} predicted, {left} left out"]
        lines += _scores(found.get("scores", []))
        lines += _coverage(found.get("coverage", []))
        lines += _rankings(found.get("rankings", []))
        lines += plans.table(found.get("choices", []))
        for reason, count in found["left_out"]:
            lines.append(f"  {count:>5} left out: {reason}")
    return lines[1:]


def _width(names: Iterable[str]) -> int:
    """Columns of the longest name."""
    return max([_NAME, *map(len, names)])


def _scores(found: Sequence[Score]) -> list[str]:
    names = [f"{each.name}, {each.band}" if each.band else each.name for each in found]
    width = _width(names)
    head = f"  {'':<{width}} {'n':>5} {'mean':>7} {'median':>7} {'90 %':>7} {'ratio':>6}  worst"
    lines, kind = [], None
    for name, each in zip(names, found, strict=True):
        if each.kind != kind:
            lines += [f"by {each.kind}, errors in %" if each.kind != "all" else "errors in %", head]
            kind = each.kind
        lines.append(
            f"  {name:<{width}} {each.count:>5} {each.mean:>7.1f} {each.median:>7.1f} "
            f"{each.ninth:>7.1f} {each.ratio:>6.2f}  {each.worst}"
        )
    return lines


def _coverage(found: Sequence[Coverage]) -> list[str]:
    lines = [_WITHIN] if found else []
    width = _width(each.name for each in found)
    for each in found:
        lines.append(
            f"  {each.name:<{width}} {each.measurements:>5} {100 * each.part:>7.1f} %  {said(each)}"
        )
    return lines


def _rankings(found: Sequence[Ranking]) -> list[str]:
    lines = ["rank correlation, and median loss by our best choice"] if found else []
    texts = [f"{each.source} ({each.runs} runs in {each.choices} choices)" for each in found]
    width = _width(texts)
    for text, each in zip(texts, found, strict=True):
        lines.append(f"  {text:<{width}} {each.correlation:>6.2f} {each.lost:>7.1f} %")
    return lines


def _plain(value: object) -> object:
    """Scores as JSON has them."""
    if isinstance(value, Score | Ranking | Coverage | Summary | single.KernelScore):
        return asdict(value)
    raise TypeError(type(value))


if __name__ == "__main__":
    sys.exit(command.run(main))
