"""V1: predicted times of collectives against measured ones, by hardware, collective and size.

An error is `exp(mean |ln(ours / measured)|) - 1` over the points of a sweep and size band: the geometric mean of how
many times too long or too short; of several sweeps the mean of theirs. The measurements are `measured/sweeps.csv` (what
was run, on which preset, by whom) and `measured/points.csv` (in-place time where it was measured, else out of place).
Nothing is fitted here and no sweep has parameters of its own.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ..api import collective_row
from ..platform import Platform
from .study import Row, Study, analytical

SMALL, LARGE = 2**16, 2**24
BANDS = ("up to 64 KiB", "to 16 MiB", "16 MiB and above")
REDUCED = (25.0, 20.0, 8.0)
"""What an all-reduce may be off by in each band, percent; other collectives 1.5 times that."""
SINGLE = {"V100": 5.0, "A100": 5.0, "H100": 5.0, "H200": 5.0, "B200": 5.0}
"""Large all-reduces within one node."""
PUBLISHED = {("H100", 2): 20.63, ("H100", 4): 12.01, ("H100", 8): 9.69, ("V100", 4): 7.9, ("V100", 8): 2.8}
"""ASTRA-sim's own errors, all-reduce on so many GPUs, percent (astra-sim-docs, validation/hardware)."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Measurements of one collective on one machine: bytes as nccl-tests counts them, us."""

    name: str
    grade: str
    gpu: str
    gpus: int
    nodes: int
    collective: str
    preset: str
    settings: tuple[tuple[str, str], ...]
    source: str
    points: tuple[tuple[int, float], ...]

    @property
    def platform(self) -> Platform:
        """The preset, resized."""
        return Platform.load(self.preset, dict(self.settings))


@dataclass(frozen=True, slots=True)
class Error:
    """How far off a sweep is in a band: mean of `|ln(ours / measured)|`."""

    sweep: Sweep
    band: int
    log: float

    @property
    def percent(self) -> float:
        """As a percentage."""
        return 100 * (math.exp(self.log) - 1)


def _table(name: str) -> Iterator[dict[str, str]]:
    with resources.files(__package__).joinpath("measured", name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


@cache
def sweeps() -> tuple[Sweep, ...]:
    """All sweeps, in the order of their file."""
    points: dict[str, list[tuple[int, float]]] = {}
    for row in _table("points.csv"):
        points.setdefault(row["sweep"], []).append((int(row["bytes"]), float(row["time_us"])))
    return tuple(_sweep(row, points[row["sweep"]]) for row in _table("sweeps.csv"))


def _sweep(row: dict[str, str], points: list[tuple[int, float]]) -> Sweep:
    pairs = [part.partition("=") for part in row["settings"].split(";") if part]
    return Sweep(
        row["sweep"],
        row["grade"],
        row["gpu"],
        int(row["gpus"]),
        int(row["nodes"]),
        row["collective"],
        row["preset"],
        tuple((key, value) for key, _, value in pairs),
        row["source"],
        tuple(points),
    )


def band(size: int) -> int:
    """Index into `BANDS`."""
    return 0 if size <= SMALL else 1 if size < LARGE else 2


def errors(sweep: Sweep, backend: str = "analytical", platform: Platform | None = None) -> list[Error]:
    """The errors of a sweep, band by band, simulated on its preset or on `platform`."""
    target = platform or sweep.platform
    logs: dict[int, list[float]] = {}
    for size, measured in sweep.points:
        ours = collective_row(sweep.collective, size, target, backend=backend).time_us
        logs.setdefault(band(size), []).append(abs(math.log(ours / measured)))
    return [Error(sweep, at, sum(found) / len(found)) for at, found in sorted(logs.items())]


def rows(backends: Sequence[str]) -> list[Row]:
    """Errors by collective and band, on single nodes, beside ASTRA-sim's own, and hardware by hardware."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[Row]:
    found = [error for sweep in sweeps() for error in errors(sweep, backend)]
    fair = [error for error in found if error.sweep.grade in "AB"]
    for kind in dict.fromkeys(sweep.collective for sweep in sweeps()):
        for at, words in enumerate(BANDS):
            yield from _row(
                f"{kind}, {words}",
                backend,
                [e for e in fair if (e.sweep.collective, e.band) == (kind, at)],
                REDUCED[at] * (1 if kind == "all_reduce" else 1.5),
            )
    for gpu, most in SINGLE.items():
        chosen = _single(gpu)
        yield from _row(f"all_reduce, one node of {gpu}, {BANDS[2]}", backend, [e for e in fair if chosen(e)], most)
    for (gpu, gpus), theirs in PUBLISHED.items():
        same = _single(gpu, gpus)
        words = f"all_reduce, {gpus} {gpu}, {BANDS[2]}, against ASTRA-sim's error"
        yield from _row(words, backend, [e for e in found if same(e)], theirs)
    for gpu in dict.fromkeys(sweep.gpu for sweep in sweeps()):
        for at, words in enumerate(BANDS):
            yield from _row(f"{gpu}, {words}", backend, [e for e in fair if (e.sweep.gpu, e.band) == (gpu, at)], None)


def _single(gpu: str, gpus: int | None = None) -> Callable[[Error], bool]:
    def chosen(error: Error) -> bool:
        sweep = error.sweep
        return (sweep.gpu, sweep.nodes, sweep.collective, error.band) == (gpu, 1, "all_reduce", 2) and gpus in (
            None,
            sweep.gpus,
        )

    return chosen


def _row(setup: str, backend: str, found: list[Error], most: float | None) -> Iterator[Row]:
    if found:
        mean = 100 * (math.exp(sum(error.log for error in found) / len(found)) - 1)
        worst = max(found, key=lambda error: error.log)
        why = f"worst: {worst.sweep.name}, {worst.percent:.0f} %; {worst.sweep.preset}"
        yield Row(f"{setup} ({len(found)})", backend, most, mean, "%", why, "<")


STUDY = Study(
    "v1",
    "Collectives: predicted against measured times",
    "nccl-tests and rccl-tests output that others published; each sweep's source is in studies/measured/sweeps.csv",
    "Error of the predicted time on the shipped presets; in parentheses the number of sweeps. Paper: what it should "
    "stay below. Platforms are presets resized to the GPUs that were used; network rates and forced "
    "algorithms are a sweep's own; presets were fitted to these sweeps (docs/accuracy.md). Sweeps over TCP by "
    "mistake, over PCIe and with SHARP in the network are left out: there is no model of them.",
    rows,
)
