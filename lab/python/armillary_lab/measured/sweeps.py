"""Measured collectives as typed rows: `measured/sweeps.csv` (what was run, on which preset, from
which source, and why it is not predicted) and `points.csv`.

A point is the in-place time where it was measured, else out of place. All-to-alls are out of place:
no library does them in place (ROCm/rccl@5c09f32e test/AllToAllTests.cpp; NCCL's user guide, "In-
place operations"). Not here: what we predict (`score.collectives`), or how well parameters that
were fitted to some of them carry over to others (`score.unseen_collectives`)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from armillary.platform import Platform
from armillary.uncertainty.collectives import BANDS, LARGE, SMALL, band

__all__ = [
    "BANDS",
    "LARGE",
    "SEND",
    "SMALL",
    "Error",
    "MeasuredSweep",
    "band",
    "by_band",
    "not_predicted",
    "percent",
    "quantile",
    "sweeps",
]

SEND = "send_recv"
"""A message from one GPU to another, which is not a collective."""


@dataclass(frozen=True, slots=True)
class MeasuredSweep:
    """Measurements of one collective on one machine: bytes as nccl-tests counts them, us."""

    name: str
    grade: str
    gpu: str
    gpus: int
    nodes: int
    collective: str
    preset: str
    settings: tuple[tuple[str, str], ...]
    fabric: str
    """The preset that draws the real links of the machine."""
    fabric_settings: tuple[tuple[str, str], ...]
    source: str
    points: tuple[tuple[int, float], ...]

    @property
    def platform(self) -> Platform:
        """The preset, resized."""
        return Platform.load(self.preset, dict(self.settings))

    @property
    def real_fabric(self) -> Platform:
        """The preset with the real links, resized."""
        return Platform.load(self.fabric, dict(self.fabric_settings))

    @property
    def repository(self) -> str:
        """The repository or page that published it."""
        return repository(self.source)

    @property
    def fair(self) -> bool:
        """Whether its times were printed by those who measured, not read off a figure."""
        return self.grade in "AB"


@dataclass(frozen=True, slots=True)
class Error:
    """How far off a sweep is in a band: mean of `|ln(ours / measured)|`."""

    sweep: MeasuredSweep
    band: int
    log: float

    @property
    def percent(self) -> float:
        """As a percentage."""
        return percent(self.log)


def repository(source: str) -> str:
    """The repository or page of a source, which may name a commit and a file after it. An indexed
    page differs from others by its number alone."""
    if source.startswith("indexed "):
        return source
    return source.partition("@")[0].partition(" ")[0]


def percent(log: float) -> float:
    """`|ln(ours / measured)|` as a percentage by which ours is too long or too short."""
    return 100 * (math.exp(log) - 1)


def quantile(logs: Sequence[float], part: float) -> float:
    """The error that a part of these logarithms does not exceed, as a percentage."""
    ordered = sorted(map(abs, logs))
    return percent(ordered[math.ceil(part * len(ordered)) - 1])


def by_band(sweep: MeasuredSweep, found: Iterator[tuple[int, float]]) -> list[Error]:
    """The errors of a sweep, band by band, from sizes and `|ln(ours / measured)|`."""
    logs: dict[int, list[float]] = {}
    for size, log in found:
        logs.setdefault(band(size), []).append(log)
    return [Error(sweep, at, sum(each) / len(each)) for at, each in sorted(logs.items())]


@cache
def sweeps() -> tuple[MeasuredSweep, ...]:
    """All sweeps that can be predicted, in the order of their file."""
    points: dict[str, list[tuple[int, float]]] = {}
    for row in _table("points.csv"):
        points.setdefault(row["sweep"], []).append((int(row["bytes"]), float(row["time_us"])))
    rows = (row for row in _table("sweeps.csv") if not row["not_predicted"])
    return tuple(_sweep(row, points[row["sweep"]]) for row in rows)


def not_predicted() -> dict[str, str]:
    """The other sweeps, and why each is not predicted: what its source says of it, or leaves
    out."""
    return {r["sweep"]: r["not_predicted"] for r in _table("sweeps.csv") if r["not_predicted"]}


def _table(name: str) -> Iterator[dict[str, str]]:
    with resources.files(__package__).joinpath(name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _sweep(row: dict[str, str], points: list[tuple[int, float]]) -> MeasuredSweep:
    return MeasuredSweep(
        row["sweep"],
        row["grade"],
        row["gpu"],
        int(row["gpus"]),
        int(row["nodes"]),
        row["collective"],
        row["preset"],
        _pairs(row["settings"]),
        row["fabric"],
        _pairs(row["fabric_settings"]),
        row["source"],
        tuple(points),
    )


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    parts = (part.partition("=") for part in text.split(";") if part)
    return tuple((key, value) for key, _, value in parts)
