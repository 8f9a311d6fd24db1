"""A library's parameters from measured times: which ones they constrain, what is left, what is
extrapolated.

Parameters that the measurements do not constrain keep the platform's values, so that collectives
that were not measured stay as they were (`Search.settle`). A parameter that had to move, but whose
interval reaches three times or a third of its value, is marked: only its combination with others is
certain. What the model then leaves of the measurements is kept as corrections by size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import InputError
from ..platform import Platform
from ..units import PPM, counted
from . import corrections, supported
from .case import Case, cases, overrides, parameters, without_corrections
from .corrections import Correction
from .logs import MeasuredTable
from .search import STAY, STAY_OF_A_PLATFORM, WIDE, ParameterSearch, outliers

_INTERVAL = "library.min_call_interval"
_SMALL = 2**16
"""Largest size at which a single time that is too long is the host's."""
_UNLIKE = ("all_reduce", "all_gather", "broadcast", "all_to_all")
"""Collectives that a library does in different ways; all others go like one of these."""
_LARGE = 2**24
_PARTS = 3
"""Parts of the sizes, each left out once: of three, both neighbours of a size stay."""
LONGEST_STEPS = (5.0, 10.0, 15.0)
"""Longest step within a node with LL, LL128 and Simple, us: about five times NCCL's constants for
NVLink (NVIDIA/nccl@5067397c src/graph/tuning.cc line 149). All-reduces alone do not say whether
steps of a ring are slow within a node or between nodes."""
_POOR = 30.0
"""Percent by which large messages may be off before a note asks whether the platform is the right
one."""


@dataclass(frozen=True, slots=True)
class FittedParameter:
    """One number of a `library`."""

    key: str
    unit: str
    """`us`, or empty for a part."""
    given: float
    fitted: float
    """Fitted value; the given one where the calibration changes nothing."""
    low: float
    high: float
    found: bool
    """Whether the measurements determine it."""


@dataclass(frozen=True, slots=True)
class Residual:
    """One measured point: bytes, us."""

    table: MeasuredTable
    size: int
    measured_us: float
    given_us: float
    fitted_us: float
    """By the parameters alone."""
    between_us: float
    """By parameters and corrections of other sizes alone: how a size that was not measured would
    fare."""
    outlier: bool

    @property
    def log(self) -> float:
        """ln(fitted / measured)."""
        return math.log(self.fitted_us / self.measured_us)


@dataclass(frozen=True)
class Fit:
    """A platform's library after calibration."""

    platform: str
    parameters: tuple[FittedParameter, ...]
    residuals: tuple[Residual, ...]
    corrections: tuple[Correction, ...]
    """Corrections of collectives that were measured."""
    nodes: tuple[int, ...]
    """Numbers of nodes that were measured."""
    hosts: tuple[tuple[int, int, int], ...] = ()
    """Ranks, the hosts that a log names, and the nodes of the platform that hold these ranks, where
    the two differ."""
    held: tuple[Correction, ...] = ()
    """Corrections of collectives that were not measured: they keep their times near the
    platform's."""

    @cached_property
    def values(self) -> dict[str, float]:
        """Parameters that are not the platform's any more: us, or parts."""
        return {p.key: p.fitted for p in self.parameters if p.fitted != p.given}

    @cached_property
    def settings(self) -> dict[str, str]:
        """All parameters and corrections, as overrides of the platform."""
        values = {p.key: p.fitted for p in self.parameters}
        made = overrides(values, {p.key: p.unit for p in self.parameters})
        entries = ", ".join(each.setting() for each in (*self.corrections, *self.held))
        return {**made, "library.corrections": f"[{entries}]"} if entries else made

    def times(self, case: Case) -> list[float]:
        """Predicted us of each point, with corrections where the collective was measured on the
        same number of members."""
        had = parameters(case.platform)
        values = {key: value for key, value in self.values.items() if key in had}
        where = (case.table.collective, *case.place)
        found = next(
            (each.points for each in (*self.corrections, *self.held) if each.key == where), ()
        )
        return _corrected(case, values, found)

    def error(self, which: Callable[[Residual], float]) -> float:
        """Geometric mean error in percent of `which` (fitted or given us) against measured."""
        logs = [abs(math.log(which(r) / r.measured_us)) for r in self.residuals]
        return 100 * (math.exp(sum(logs) / len(logs)) - 1)

    def notes(self) -> list[str]:
        """Notes on parameters that the measurements do not determine."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        for ranks, hosts, nodes in self.hosts:
            yield (
                f"{counted(ranks, 'rank')} ran on {counted(hosts, 'host')}; {self.platform} fills "
                f"{counted(nodes, 'node')} with them"
            )
        large = [abs(row.log) for row in self.residuals if row.size >= _LARGE]
        if large and (off := 100 * math.expm1(sum(large) / len(large))) > _POOR:
            yield (
                f"from 16 MiB on, the error is still {off:.0f} %: is this the machine that "
                f"{self.platform} describes?"
            )
        loose = [
            p.key.removeprefix("library.")
            for p in self.parameters
            if not p.found and p.fitted != p.given
        ]
        if loose:
            yield (
                "changed, but these logs determine only a combination of them and others: "
                f"{', '.join(loose)}"
            )
        kept = [p.key.removeprefix("library.") for p in self.parameters if p.fitted == p.given]
        if kept:
            yield (
                f"unchanged from {self.platform}, since these logs need no other values: "
                f"{', '.join(kept)}"
            )
        if max(self.nodes) == 1 and any(
            p.key.startswith("library.network") for p in self.parameters
        ):
            yield (
                "no log has more than one node: more nodes are extrapolated with the network "
                f"of {self.platform}"
            )
        elif max(self.nodes) == 2:
            yield (
                "with two nodes, a call's start and the levels of a tree can't be separated: over "
                "more nodes, times of small messages are a guess, those of large ones are "
                "extrapolated; measure more nodes"
            )
        elif max(self.nodes) > 2:
            yield f"measured on up to {counted(max(self.nodes), 'node')}: more are extrapolated"
        if self.corrections:
            measured = ", ".join(
                f"{c.collective} over {c.inside * c.between}" for c in self.corrections
            )
            yield f"corrected by size, only where it was measured: {measured}"
        if self.held:
            others = ", ".join(f"{c.collective} over {c.inside * c.between}" for c in self.held)
            yield f"kept near the times of {self.platform}, as no log has them: {others}"


def calibrate(
    name: str, tables: Sequence[MeasuredTable], settings: Mapping[str, object] | None = None
) -> Fit:
    """Fits the library of the platform `name` (with `settings`) to `tables`.

    Raises `InputError` when the platform has no library or can't have the number of NPUs that a
    table has ranks."""
    given = dict(settings or {})
    measured = cases(name, tables, given)
    found = fit(name, measured, parts=_PARTS)
    made = [*found.corrections, *_carried(name, given, found)]
    if set(found.values) == {_INTERVAL}:
        return replace(found, held=tuple(made))
    kept = supported.limited(measured, found.values, made)
    own = {(case.table.collective, *case.place) for case in measured}
    mine = [each for each in kept if each.key in own]
    others = [each for each in kept if each.key not in own]
    return replace(found, corrections=tuple(mine), held=tuple(others))


def _carried(name: str, settings: Mapping[str, object], found: Fit) -> Iterator[Correction]:
    """Corrections that the platform had for what was not measured now, so that those times stay.

    A correction is a factor on the model, so it changes by as much as the model does.
    """
    platform = Platform.load(name, settings)
    again = {each.key for each in found.corrections}
    for had in platform.describe()["library"]["corrections"]:
        collective, inside, between = had["collective"], had["ranks_per_node"], had["nodes"]
        if (collective, inside, between) in again:
            continue
        bare = without_corrections(Platform.load(name, {**settings, "npus": inside * between}))
        case = Case(
            MeasuredTable(
                name,
                collective,
                inside * between,
                tuple((size, 1.0) for size in had["sizes_bytes"]),
            ),
            bare,
        )
        known = parameters(bare)
        after = case.times({key: value for key, value in found.values.items() if key in known})
        factors = zip(had["sizes_bytes"], had["factors_ppm"], case.times({}), after, strict=True)
        points = tuple((size, factor / PPM * old / new) for size, factor, old, new in factors)
        yield Correction(collective, inside, between, points)


def fit(
    name: str, measured: Sequence[Case], begin: Mapping[str, float] | None = None, parts: int = 0
) -> Fit:
    """Fits one set of parameters to cases.

    All parameters of the first platform may move. Those that the measurements do not constrain keep
    its values, and collectives that were not measured resist a change of what they share with
    measured ones. With `begin` only these parameters move, from these values, and nothing is kept.
    For times between sizes, the sizes are divided into `parts` and each part is left out once;
    without parts they are the fitted ones. A single small time that is longer than the platform's
    sets the host's share alone (`min_call_interval`)."""
    start = parameters(measured[0].platform)
    if begin is None and (us := _of_the_host(measured)):
        return _with_interval(name, measured, start, us)
    given = dict(begin) if begin is not None else {key: value for key, (value, _) in start.items()}
    kept = _others(measured, given) if begin is None else []
    stay = STAY_OF_A_PLATFORM if begin is None else STAY
    limits = _limits(given)
    search = ParameterSearch(measured, given, limits, kept, stay)
    moving = [key for key in given if search.matters(key)]
    best = search.explore(moving)
    moved, best = search.settle(moving, best) if begin is None else (moving, best)
    intervals = search.intervals(moved, best)
    found = [
        key
        for key, (low, high) in intervals.items()
        if low > best[key] / WIDE and high < best[key] * WIDE
    ]
    made = tuple(
        FittedParameter(
            key,
            unit,
            value,
            best.get(key, value),
            *intervals.get(key, (0.0, math.inf)),
            key in found,
        )
        for key, (value, unit) in start.items()
    )
    apart = [
        ParameterSearch(_without(measured, part, parts), given, limits, kept, stay).descend(moved)
        for part in range(parts)
    ]
    residuals = _residuals(measured, best, apart)
    nodes = tuple(sorted({case.place[1] for case in measured}))
    placed = {
        (case.table.ranks, case.table.hosts, case.place[1]) for case in measured if case.table.hosts
    }
    unlike = tuple(sorted(each for each in placed if each[1] != each[2]))
    return Fit(name, made, residuals, _corrections(measured, residuals), nodes, unlike)


def _of_the_host(measured: Sequence[Case]) -> float | None:
    """The only measured time, us, if it is of a small message within a node and longer than the
    platform's: the device does not need longer, so its host does."""
    points = [point for case in measured for point in case.table.points]
    if len(points) != 1 or points[0][0] > _SMALL or measured[0].place[1] > 1:
        return None
    (predicted,) = measured[0].times({})
    return points[0][1] if points[0][1] > predicted else None


def _with_interval(
    name: str, measured: Sequence[Case], start: Mapping[str, tuple[float, str]], us: float
) -> Fit:
    """The platform with a host that issues no two calls closer than `us`."""
    rows = {_INTERVAL: (0.0, "us")} | dict(start)
    made = tuple(
        FittedParameter(key, unit, value, us, us, us, True)
        if key == _INTERVAL
        else FittedParameter(key, unit, value, value, 0.0, math.inf, False)
        for key, (value, unit) in rows.items()
    )
    nodes = tuple({case.place[1] for case in measured})
    return Fit(name, made, _residuals(measured, {_INTERVAL: us}, []), (), nodes)


def _limits(given: Mapping[str, float]) -> dict[str, float]:
    """The largest values of steps within a node; a platform that has more keeps it."""
    steps = {
        f"library.node.{where}step_latency[{at}]": most
        for where in ("", "hosts.")
        for at, most in enumerate(LONGEST_STEPS)
    }
    return {key: max(most, given[key]) for key, most in steps.items() if key in given}


def _others(measured: Sequence[Case], given: Mapping[str, float]) -> list[Case]:
    """Collectives that were not measured where others were, with their times as they are."""
    kinds: dict[tuple[int, int], set[str]] = {}
    for case in measured:
        kinds.setdefault(case.place, set()).add(case.table.collective)
    found: dict[tuple[str, int, int], Case] = {}
    for case in measured:
        for kind in _UNLIKE:
            if kind not in kinds[case.place]:
                found.setdefault((kind, *case.place), _as_given(case, kind, given))
    return [case for case in found.values() if case.table.points]


def _as_given(case: Case, kind: str, given: Mapping[str, float]) -> Case:
    """Another collective at the sizes of a case, with its times as they are; without points where
    it has none."""
    sizes = sorted({size for size, _ in case.table.points if size > 0})
    other = replace(
        case,
        table=MeasuredTable(
            case.table.file, kind, case.table.ranks, tuple((size, 1.0) for size in sizes)
        ),
    )
    try:
        times = other.times(given)
    except InputError:
        return other.at([])
    return other.at(list(zip(sizes, times, strict=True)))


def _without(measured: Sequence[Case], part: int, parts: int) -> list[Case]:
    """Cases without every `parts`-th of their sizes; whole where nothing would be left."""
    return [
        case.at([p for p in case.table.points if p[0] not in _part(case, part, parts)])
        for case in measured
    ]


def _part(case: Case, part: int, parts: int) -> frozenset[int]:
    """Every `parts`-th size of a case; none where it has no more than one."""
    sizes = sorted({size for size, _ in case.table.points})
    return frozenset(sizes[part::parts] if len(sizes) > 1 else ())


def _residuals(
    measured: Sequence[Case], values: Mapping[str, float], apart: Sequence[Mapping[str, float]]
) -> tuple[Residual, ...]:
    rows = [row for case in measured for row in _rows(case, values, apart)]
    flagged = zip(
        rows, outliers([math.log(row.fitted_us / row.measured_us) for row in rows]), strict=True
    )
    return tuple(replace(row, outlier=outlier) for row, outlier in flagged)


def _rows(
    case: Case, values: Mapping[str, float], apart: Sequence[Mapping[str, float]]
) -> Iterator[Residual]:
    between: dict[int, float] = {}
    for part, found in enumerate(apart):
        left = _part(case, part, len(apart))
        kept = [p for p in case.table.points if p[0] not in left]
        points = corrections.factors(_ratios(kept, case.at(kept).times(found)))
        tried = case.at([p for p in case.table.points if p[0] in left])
        between.update(
            zip(
                (size for size, _ in tried.table.points),
                _corrected(tried, found, points),
                strict=True,
            )
        )
    for (size, measured), before, after in zip(
        case.table.points, case.times_before(), case.times(values), strict=True
    ):
        yield Residual(case.table, size, measured, before, after, between.get(size, after), False)


def _ratios(
    points: Sequence[tuple[int, float]], model_us: Sequence[float]
) -> list[tuple[int, float]]:
    return [
        (size, measured / ours) for (size, measured), ours in zip(points, model_us, strict=True)
    ]


def _corrected(case: Case, values: Mapping[str, float], points: corrections.Points) -> list[float]:
    """Predicted us of each point with factors by size."""
    known = corrections.known(points, case.at(points).times(values)) if points else []
    times = zip(case.table.points, case.times(values), strict=True)
    return [corrections.corrected(known, size, ours) for (size, _), ours in times]


def _corrections(measured: Sequence[Case], residuals: Sequence[Residual]) -> tuple[Correction, ...]:
    ratios: dict[tuple[str, int, int], list[tuple[int, float]]] = {}
    places = {id(case.table): case.place for case in measured}
    for row in residuals:
        key = (row.table.collective, *places[id(row.table)])
        ratios.setdefault(key, []).append((row.size, row.measured_us / row.fitted_us))
    made = (Correction(*key, corrections.factors(found)) for key, found in ratios.items())
    return tuple(each for each in made if each.points)
