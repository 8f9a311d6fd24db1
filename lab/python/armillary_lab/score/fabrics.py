"""Study V1 again, on the real fabrics of the measured machines: meshes, NVSwitches, rails, leaves
and spines, dragonflies.

The presets that a sweep names are stacks of blocks. `sweeps.csv` names for each also a preset that
draws the links (`systems/fabric`), with the settings that make it as large as the measured machine.
Errors are those of `collectives`, on both. Parameters of libraries are the same, so the errors say
whether the wiring that a stack leaves out matters to what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from ..measured.sweeps import BANDS, Error, MeasuredSweep, percent, sweeps
from ..study import Reference, Study, StudyRow, limit
from .collectives import errors

BACKENDS = ("analytical", "flow")
"""Backends of the study: `link` queues whole messages, which no measured fabric does."""
WORSE = 0.1
"""By how many percentage points the mean of a row may be worse than on the stacks."""

Pair = tuple[Error, Error]
"""The error of a sweep in a band on its stack, and on its fabric."""


def pairs(sweep: MeasuredSweep, backend: str) -> list[Pair]:
    """The errors of a sweep band by band: those of study V1, and on the real fabric by
    `backend`."""
    return list(zip(_stack(sweep), errors(sweep, backend, sweep.real_fabric), strict=True))


@cache
def _stack(sweep: MeasuredSweep) -> tuple[Error, ...]:
    return tuple(errors(sweep))


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Errors by collective and band, and of fabrics by kind."""
    chosen = [sweep for sweep in sweeps() if sweep.fair]
    return [row for backend in BACKENDS if backend in backends for row in _rows(chosen, backend)]


def _rows(chosen: Sequence[MeasuredSweep], backend: str) -> Iterator[StudyRow]:
    found = [pair for sweep in chosen for pair in pairs(sweep, backend)]
    for kind in dict.fromkeys(sweep.collective for sweep in chosen):
        for at, words in enumerate(BANDS):
            yield from _row(
                f"{kind}, {words}",
                backend,
                [pair for pair in found if (pair[0].sweep.collective, pair[0].band) == (kind, at)],
            )
    for words, holds in KINDS.items():
        yield from _row(words, backend, [pair for pair in found if holds(pair[0].sweep)])


def _between(*names: str) -> Callable[[MeasuredSweep], bool]:
    return lambda sweep: sweep.nodes > 1 and sweep.preset.startswith(names)


def _within(*names: str) -> Callable[[MeasuredSweep], bool]:
    return lambda sweep: sweep.nodes == 1 and sweep.preset.startswith(names)


KINDS: dict[str, Callable[[MeasuredSweep], bool]] = {
    "cube mesh (DGX-1)": _within("dgx1-v100"),
    "mesh of xGMI": _within("mi3"),
    "NVSwitches": _within("dgx-", "hgx-", "nd-", "p6-"),
    "rack of NVSwitches (NVL72)": lambda sweep: sweep.preset in ("gb200-nvl72", "gb300-nvl72"),
    "rails between nodes": _between("dgx-", "hgx-", "coreweave-"),
    "rails between racks": _between("gb200-nvl72-8r", "gb300-nvl72-8r"),
    "leaves and spines": _between("p4d-", "p5-", "a3", "dgx2h-", "mi3"),
    "dragonfly (Slingshot)": _between("polaris-", "alps-", "kestrel-", "perlmutter-"),
}
"""Kinds of fabrics and the sweeps on them."""


def _row(setup: str, backend: str, found: Sequence[Pair]) -> Iterator[StudyRow]:
    if not found:
        return
    stack, ours = (percent(sum(pair[at].log for pair in found) / len(found)) for at in range(2))
    worst = max(found, key=lambda pair: pair[1].percent - pair[0].percent)
    change = worst[1].percent - worst[0].percent
    why = f"stacks: {stack:.2f} %; most in a sweep: {change:+.2f} points, {worst[0].sweep.name}"
    yield StudyRow(f"{setup} ({len(found)})", backend, _most(stack), ours, "%", why)


def _most(stack: float) -> Reference:
    where = f"the error on the stacks of study V1 and {WORSE} points; chosen by us"
    return limit(stack + WORSE, "<", where)


STUDY = Study(
    "Study V1 on presets that draw the links: meshes, NVSwitches, rails, leaves and spines, "
    "dragonflies. Libraries keep the parameters that were fitted on stacks. In parentheses the "
    "number of sweeps and bands. Reference: the error on the stacks plus 0.1 points. Where a "
    "source does not describe its network, the file says what was assumed. Several NVSwitches are "
    "drawn as one, and a shared card as a port for each GPU.",
    rows,
)
