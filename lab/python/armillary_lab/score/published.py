"""Errors of predictions, by what they have in common.

An error is `|ln(ours / measured)|` of a time or of peak memory, given as a percentage by which ours
is too large or too small. That of a sweep in a size band is the mean over its points. Means are
over sweeps, medians and 90th percentiles over runs."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from armillary.kernels.tables import Left
from armillary.uncertainty import Coverage, counted, of
from armillary.uncertainty.steps import labels

from ..measured.sweeps import BANDS, percent
from ..predict.collectives import Point, Sweep
from ..predict.kernels import KernelTime
from ..predict.peak_memory import MemoryPrediction
from ..predict.plans import Predicted
from ..predict.training_steps import TimePrediction
from ..predict.vision import RatePrediction
from .correlation import spearman
from .training_steps import agreement, choices, lost


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of a group of measurements, percent."""

    kind: str
    """Kind of the list: `operation`, `gpu`, `source`."""
    name: str
    band: str
    """Size band of a collective; empty for steps."""
    count: int
    mean: float
    median: float
    ninth: float
    """90th percentile."""
    ratio: float
    """Geometric mean of ours over measured."""
    worst: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """How well our times order the configurations of a model on the same GPUs."""

    source: str
    choices: int
    runs: int
    correlation: float
    """Spearman's, weighted by runs."""
    lost: float
    """Median loss by our best choice, percent."""


@dataclass(frozen=True, slots=True)
class _Error:
    name: str
    log: float
    signed: float


def _error(name: str, signed: float) -> _Error:
    """An error of ln(ours / measured)."""
    return _Error(name, abs(signed), signed)


def of_sweeps(found: Sequence[Sweep]) -> list[Score]:
    """Errors of collectives by operation, GPU and source, each by size band."""
    by: tuple[tuple[str, Callable[[Sweep], str]], ...] = (
        ("operation", lambda each: each.operation),
        ("gpu", lambda each: each.gpu),
        ("source", lambda each: each.source),
    )
    scores = []
    for kind, key in by:
        groups: dict[tuple[str, int], list[_Error]] = {}
        for sweep in found:
            for band, error in _bands(sweep):
                groups.setdefault((key(sweep), band), []).append(error)
        scores += [
            _score(kind, name, BANDS[band], each) for (name, band), each in sorted(groups.items())
        ]
    return scores


def _bands(sweep: Sweep) -> Iterator[tuple[int, _Error]]:
    bands: dict[int, list[float]] = {}
    for point in sweep.points:
        bands.setdefault(point.band, []).append(point.log)
    for band, logs in sorted(bands.items()):
        mean = sum(map(abs, logs)) / len(logs)
        yield band, _Error(sweep.name, mean, sum(logs) / len(logs))


def coverage(found: Sequence[Sweep]) -> list[Coverage]:
    """How many points lie in their intervals: all, by operation, by GPU and by size band. The
    residuals of a row's own source take no part in its interval."""
    by: tuple[tuple[str, Callable[[Sweep, Point], str]], ...] = (
        ("all", lambda _sweep, _point: "all"),
        ("operation", lambda sweep, _point: sweep.operation),
        ("gpu", lambda sweep, _point: sweep.gpu),
        ("size", lambda _sweep, point: BANDS[point.band]),
    )
    covered = []
    for kind, key in by:
        groups: dict[str, list[tuple[str, bool]]] = {}
        for sweep in found:
            for point in sweep.points:
                name = key(sweep, point)
                group = groups.setdefault(name if kind == "all" else f"{kind}: {name}", [])
                group.append((sweep.source, point.within))
        covered += counted(groups)
    return covered


_LEAST_SWEEPS = 5


def sweep_ranking(found: Sequence[Sweep]) -> Ranking | None:
    """How well our times order machines and scales: for each collective and size that at least five
    sweeps have. What is lost is how much longer the one that we call fastest takes than the
    fastest."""
    groups: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for sweep in found:
        for point in sweep.points:
            pairs = groups.setdefault((sweep.operation, point.size), [])
            pairs.append((point.measured, point.ours))
    sets = [pairs for pairs in groups.values() if len(pairs) >= _LEAST_SWEEPS]
    if not sets:
        return None
    runs = sum(map(len, sets))
    correlation = sum((spearman(pairs) or 0.0) * len(pairs) for pairs in sets) / runs
    lost = [100 * (min(pairs, key=lambda each: each[1])[0] / min(pairs)[0] - 1) for pairs in sets]
    return Ranking("sweeps", len(sets), runs, correlation, statistics.median(lost))


def of_steps(found: Sequence[TimePrediction]) -> list[Score]:
    """Errors of training steps: all, by source, GPU and number format."""
    by: tuple[tuple[str, Callable[[TimePrediction], Hashable]], ...] = (
        ("all", lambda each: "all runs"),
        ("source", lambda each: each.run.group),
        ("gpu", lambda each: each.run.gpu),
        (
            "format",
            lambda each: f"{each.run.gpu} {each.run.extra.get('format') or each.run.precision}",
        ),
    )
    scores = []
    for kind, key in by:
        groups: dict[str, list[_Error]] = {}
        for each in found:
            groups.setdefault(str(key(each)), []).append(_error(each.run.name, each.log))
        scores += [_score(kind, name, "", errors) for name, errors in sorted(groups.items())]
    return scores


def of_memory(found: Sequence[MemoryPrediction]) -> list[Score]:
    """Errors of peak memory: all, by source, GPU and model."""
    by: tuple[tuple[str, Callable[[MemoryPrediction], str]], ...] = (
        ("all", lambda _: "all runs"),
        ("source", lambda each: each.run.group),
        ("gpu", lambda each: each.run.gpu),
        ("model", lambda each: each.run.model.name),
    )
    return _of_runs(found, by)


def of_kernels(found: Sequence[KernelTime]) -> list[Score]:
    """Errors of single kernels, by kind, GPU and source."""
    by: tuple[tuple[str, Callable[[KernelTime], str]], ...] = (
        ("kind", lambda each: each.kind),
        ("gpu", lambda each: each.gpu),
        ("source", lambda each: each.source),
    )
    scores = []
    for kind, key in by:
        groups: dict[str, list[_Error]] = {}
        for each in found:
            groups.setdefault(key(each), []).append(_error(each.name, each.log))
        scores += [_score(kind, name, "", errors) for name, errors in sorted(groups.items())]
    return scores


def of_layouts(found: Sequence[Predicted]) -> list[Score]:
    """Errors of the steps of layouts that ran: all, by source and by job."""
    by: tuple[tuple[str, Callable[[Predicted], str]], ...] = (
        ("all", lambda _: "all layouts"),
        ("source", lambda each: each.tried.source),
        ("job", lambda each: each.tried.job),
    )
    scores = []
    for kind, key in by:
        groups: dict[str, list[_Error]] = {}
        for each in found:
            groups.setdefault(key(each), []).append(_error(each.tried.run.name, each.log))
        scores += [_score(kind, name, "", errors) for name, errors in sorted(groups.items())]
    return scores


def of_vision(found: Sequence[RatePrediction]) -> list[Score]:
    """Errors of steps of image and recommendation models: all, by model, GPU, number format and
    framework."""
    by: tuple[tuple[str, Callable[[RatePrediction], str]], ...] = (
        ("all", lambda _: "all runs"),
        ("model", lambda each: each.run.model),
        ("gpu", lambda each: each.run.gpu),
        ("format", lambda each: f"{each.run.generation} {each.run.precision}"),
        ("framework", lambda each: each.run.framework),
    )
    return _of_runs(found, by)


R = TypeVar("R", MemoryPrediction, RatePrediction)


def _of_runs(found: Sequence[R], by: Iterable[tuple[str, Callable[[R], str]]]) -> list[Score]:
    """Errors of predictions of runs by several keys."""
    scores = []
    for kind, key in by:
        groups: dict[str, list[_Error]] = {}
        for each in found:
            groups.setdefault(key(each), []).append(_error(each.run.name, each.log))
        scores += [_score(kind, name, "", errors) for name, errors in sorted(groups.items())]
    return scores


def step_coverage(found: Sequence[TimePrediction]) -> list[Coverage]:
    """How many steps lie in their intervals: all, and by GPU."""
    every: list[tuple[str, bool]] = []
    by_gpu: dict[str, list[tuple[str, bool]]] = {}
    for each in found:
        run = each.run
        low = "lora_rank" in run.extra
        kind = labels(run.gpu, run.precision, run.model.family, run.gpus, adapters=low)
        one = run.group, of("steps").interval(kind).holds(math.exp(-each.log))
        every.append(one)
        by_gpu.setdefault(f"gpu: {run.gpu}", []).append(one)
    return [*counted({"all": every} if every else {}), *counted(by_gpu)]


def rankings(found: Sequence[TimePrediction]) -> list[Ranking]:
    """Rank correlations of sources with at least five configurations to choose from."""
    result = []
    for source in sorted({each.run.group for each in found}):
        sets = choices([each for each in found if each.run.group == source])
        sets = [same for same in sets if len({each.measured for each in same}) > 1]
        if not sets:
            continue
        runs = sum(map(len, sets))
        correlation = sum(agreement(same) * len(same) for same in sets) / runs
        loss = statistics.median(lost(same) for same in sets)
        result.append(Ranking(source, len(sets), runs, correlation, loss))
    return result


def _score(kind: str, name: str, band: str, errors: Sequence[_Error]) -> Score:
    logs = sorted(each.log for each in errors)
    worst = max(errors, key=lambda each: each.log)
    return Score(
        kind,
        name,
        band,
        len(errors),
        percent(sum(logs) / len(logs)),
        percent(statistics.median(logs)),
        percent(logs[math.ceil(0.9 * len(logs)) - 1]),
        math.exp(sum(each.signed for each in errors) / len(errors)),
        f"{worst.name}, {percent(worst.log):.0f} %",
    )


def reasons(left: Iterable[Left]) -> list[tuple[str, int]]:
    """Reasons and how many rows each leaves out, the most frequent first."""
    counts = Counter(each.reason for each in left)
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))
