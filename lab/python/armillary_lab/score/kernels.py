"""Errors of predicted times of single kernels.

An error is the factor by which a prediction is too long or too short, less one. Rows are grouped by
kind of kernel, GPU, number format and library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..predict.measured_kernels import Predicted


@dataclass(frozen=True, slots=True)
class KernelScore:
    """Errors of a group of kernels, percent; `ratio` is the geometric mean of ours over
    measured."""

    by: str
    name: str
    count: int
    median: float
    ninth: float
    worst: float
    ratio: float


def scores(found: Sequence[Predicted]) -> list[KernelScore]:
    """Errors of all kernels, and by GPU, number format, library and table."""
    by: tuple[tuple[str, Callable[[Predicted], str]], ...] = (
        ("all", lambda each: each.row.shape.kind),
        ("table", lambda each: each.row.table),
        ("gpu", lambda each: f"{each.row.table} {each.row.system}"),
        ("format", lambda each: f"{each.row.table} {getattr(each.row.shape, 'format', '')}"),
        ("library", lambda each: f"{each.row.table} {each.row.software.partition(' ')[0]}"),
    )
    return [
        score(kind, name, [each.log for each in group])
        for kind, key in by
        for name, group in sorted(_grouped(found, key).items())
    ]


def score(by: str, name: str, logs: Sequence[float]) -> KernelScore:
    """Errors of a group, from ln(ours / measured)."""
    errors = sorted(100 * math.expm1(abs(log)) for log in logs)
    ninth = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
    ratio = math.exp(statistics.fmean(logs))
    return KernelScore(by, name, len(errors), statistics.median(errors), ninth, errors[-1], ratio)


def _grouped(
    found: Iterable[Predicted], key: Callable[[Predicted], str]
) -> dict[str, list[Predicted]]:
    groups: dict[str, list[Predicted]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return groups


def lines(found: Sequence[KernelScore]) -> Iterator[str]:
    """The table in words."""
    yield f"{'kernels':<40} {'count':>7} {'median':>8} {'90 %':>8} {'worst':>9} {'ours':>6}"
    for each in found:
        yield (
            f"{each.by + ' ' + each.name:<40} {each.count:>7} {each.median:>7.1f}%"
            f" {each.ninth:>7.1f}% {each.worst:>8.0f}% {each.ratio:>6.2f}"
        )
