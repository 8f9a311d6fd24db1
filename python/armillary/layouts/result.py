"""The answer of a search for layouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..uncertainty.interval import Factors, indistinct


@dataclass(frozen=True, slots=True)
class Ranked:
    """A layout that fits, with its simulated step."""

    options: Mapping[str, object]
    """Options of the model's workload that make it."""
    step_ns: float
    """Simulated step."""
    bound_ns: float
    """Lower bound of the simulated step."""
    estimate_ns: float
    """Estimate of it."""
    memory_bytes: int
    """Memory of the fullest rank."""
    fits: str
    """`yes`, or `near` where memory is not known closely enough."""
    tokens_per_s: float | None = None
    mfu: float | None = None
    """Model operations over what all NPUs could do."""
    low_ns: float | None = None
    """Start of the interval that holds 80 % of measured steps like this one."""
    high_ns: float | None = None
    """End of that interval."""
    separated: bool = True
    """Whether the uncertainty of predictions separates it from the best layout."""
    expected_ns: float | None = None
    """Step that is expected after other layouts of the job were measured; the measured step where
    it was measured itself."""

    @property
    def likely_ns(self) -> float:
        """The expected step, or without measurements the simulated one."""
        return self.step_ns if self.expected_ns is None else self.expected_ns


@dataclass(frozen=True, slots=True)
class MeasuredLayout:
    """A layout of the job that was measured."""

    options: Mapping[str, object]
    measured_ns: float
    """Geometric mean of its measured steps."""
    simulated_ns: float
    steps: int
    """Number of measurements."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A layout that would be faster than the best one, and does not fit."""

    options: Mapping[str, object]
    estimate_ns: float
    """Estimate of its step."""
    stage: int
    """The stage of the fullest rank."""
    part: str
    """The largest part of that rank's memory."""
    part_bytes: int
    memory_bytes: int
    """All that the rank needs."""
    over_bytes: int
    """Bytes above what may fit."""
    fits_with: Mapping[str, object] | None = None
    """The change of one option after which it fits and is the fastest; none where no single change
    is enough."""

    def reason(self) -> str:
        """Why it does not fit, and what would help."""
        from ..report.quantity import size

        said = (
            f"{size(self.memory_bytes)} on stage {self.stage}, {size(self.over_bytes)} too many; "
            f"{size(self.part_bytes)} of {self.part}"
        )
        if self.fits_with is None:
            return f"{said}; no single change fits"
        return f"{said}; {words(self.fits_with)} fits"


@dataclass(frozen=True, slots=True)
class OnFront:
    """A layout that fits, and that no other one is both faster and smaller than, by estimate."""

    options: Mapping[str, object]
    estimate_ns: float
    memory_bytes: int
    step_ns: float | None
    """Simulated step; none where the layout was not simulated."""


@dataclass(frozen=True, slots=True)
class Cell:
    """All layouts with the same degrees of parallelism."""

    tp: int
    pp: int
    cp: int
    ep: int
    layouts: int
    fitting: int
    """Layouts that fit, with `--near` also those that may."""
    least_bytes: int
    """The least memory that one of them needs."""
    estimate_ns: float | None
    """Smallest estimate of a layout that fits."""
    options: Mapping[str, object] | None
    """Options of that layout."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The answer for another batch, network or memory."""

    what: str
    """`batch`, `network` (bandwidth of all links) or `memory` (of an NPU)."""
    factor: float
    """It is multiplied by this."""
    options: Mapping[str, object] | None
    """Options of the best layout, or of the fastest one by estimate with another memory; none
    where no layout fits."""
    step_ns: float | None
    """Step; none where no layout fits, the batch can't be divided so, or a run takes minutes."""
    tokens_per_s: float | None
    simulated: bool
    """Whether the step is simulated, not estimated."""


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """The best layouts of a model on a platform, and what the search proved."""

    model: str
    platform: str
    ranks: int
    global_batch: int
    """Samples of a step."""
    seq: int
    """Tokens of a sample."""
    layouts: int
    """Layouts of the space."""
    fitting: int
    """Layouts that surely fit."""
    near: int
    """Layouts that may fit."""
    best: list[Ranked]
    """Simulated layouts, the fastest first; after measurements by expected step."""
    gap: float
    """No layout of the space has a simulated step that is faster by more than this share."""
    open_layouts: int
    """Layouts that were not simulated and whose bounds are below the best simulated step."""
    backend: str
    axes: Mapping[str, list[object]]
    """Values that each option could take."""
    refused: list[Refused] = field(default_factory=list)
    """The fastest layouts that do not fit."""
    warnings: list[str] = field(default_factory=list)
    stopped: bool = False
    """Whether the user stopped the search. The gap holds, and `open_layouts` may be more."""
    front: list[OnFront] = field(default_factory=list)
    """The trade of time for memory, the smallest layout first."""
    cells: list[Cell] = field(default_factory=list)
    """The space by its degrees of parallelism."""
    neighbours: list[Neighbour] = field(default_factory=list)
    """Other batches, networks and memories, where they were asked for."""
    measured: list[MeasuredLayout] = field(default_factory=list)
    """Layouts of the job that were measured."""
    moved: bool = False
    """Whether measurements changed the order of `best`."""

    @property
    def winner(self) -> Ranked:
        """The fastest layout."""
        return self.best[0]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = dataclasses.asdict(self)
        for each, refused in zip(found["refused"], self.refused, strict=True):
            each["reason"] = refused.reason()
        return found


def separated(best: Sequence[Ranked]) -> list[Ranked]:
    """The layouts with whether uncertainty separates each from the first."""
    first = dataclasses.replace(best[0], separated=True)
    found = (
        dataclasses.replace(each, separated=apart(first, each, each.likely_ns / first.likely_ns))
        for each in best[1:]
    )
    return [first, *found]


def apart(first: Ranked, other: Ranked, ratio: float) -> bool:
    """Whether the uncertainty of two predictions separates them; `ratio` is the second over the
    first."""

    def factors(each: Ranked) -> Factors | None:
        if each.low_ns is None or each.high_ns is None:
            return None
        return each.low_ns / each.likely_ns, each.high_ns / each.likely_ns

    one, two = factors(first), factors(other)
    return one is None or two is None or not indistinct(ratio, one, two)


def words(options: Mapping[str, object]) -> str:
    """Options as a command line has them."""
    from ..option_fields import spelled

    listed: list[str] = []
    for name, value in options.items():
        if name == "framework_set" and isinstance(value, Mapping):
            for key, each in value.items():
                listed += ["--framework-set", f"{key}={_plain(each)}"]
        else:
            listed += spelled(name, value)
    return " ".join(listed)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
