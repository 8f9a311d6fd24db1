"""Effect of a calibration: times before and after, of collectives that were measured and of those
that were not.

Before is the platform as it was given, with its own corrections; after is the platform as
`calibrate -o` writes it. Not here: the fit (`fit`), tables and charts
(`report/calibration_page.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .. import nccl
from ..platform import Platform
from .fit import Fit
from .logs import MeasuredTable

SIZES = (2**16, 2**20, 2**24, 2**30)
"""Bytes at which collectives that were not measured are compared."""
_KINDS = tuple(kind for kind in nccl.OPERATIONS if kind not in ("gather", "scatter"))
_PER_DOUBLING = 2
"""Points of a curve from one power of two to the next."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Times of one collective over `ranks` ranks by size (bytes as nccl-tests counts them), us."""

    collective: str
    ranks: int
    measured: bool
    """Whether a log has this collective over the same number of ranks."""
    bytes: tuple[int, ...]
    before_us: tuple[float, ...]
    after_us: tuple[float, ...]


def curves(
    name: str, settings: Mapping[str, object], fit: Fit, tables: Sequence[MeasuredTable]
) -> list[Curve]:
    """Curves of measured collectives, and of all others on the measured numbers of ranks and on the
    whole platform."""
    return list(_curves(name, settings, fit, tables))


def _curves(
    name: str, settings: Mapping[str, object], fit: Fit, tables: Sequence[MeasuredTable]
) -> Iterator[Curve]:
    measured: dict[tuple[str, int], list[int]] = {}
    for table in tables:
        measured.setdefault((table.collective, table.ranks), []).extend(
            size for size, _ in table.points if size > 0
        )
    ranks = dict.fromkeys([*(table.ranks for table in tables), Platform.load(name, settings).npus])
    for npus in ranks:
        pair = _platforms(name, settings, fit, npus)
        kinds = [kind for kind, many in measured if many == npus]
        for kind in dict.fromkeys([*kinds, *_KINDS]):
            sizes = measured.get((kind, npus))
            found = _times(pair, kind, _grid(sizes) if sizes else SIZES, npus)
            if found is not None:
                yield Curve(kind, npus, sizes is not None, *found)


def _platforms(
    name: str, settings: Mapping[str, object], fit: Fit, npus: int
) -> tuple[Platform, Platform]:
    """The platform before and after, with this number of NPUs."""
    before = Platform.load(name, {**settings, "npus": npus})
    return before, before.changed(fit.settings)


def _times(
    pair: tuple[Platform, Platform], kind: str, sizes: Sequence[int], ranks: int
) -> tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...]] | None:
    wanted = [nccl.measured_bytes(kind, size, ranks) for size in sizes]
    before, after = (platform._core.library_times([], kind, wanted) for platform in pair)
    return (
        (tuple(sizes), tuple(before), tuple(after))
        if before is not None and after is not None
        else None
    )


def _grid(sizes: Sequence[int]) -> list[int]:
    """The measured sizes, and others between the least and the largest, so that lines follow the
    model."""
    least, most = min(sizes), max(sizes)
    found = set(sizes)
    at = float(least)
    while at < most:
        found.add(round(at))
        at *= 2 ** (1 / _PER_DOUBLING)
    return sorted(found)
