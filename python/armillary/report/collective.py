"""The page of a timed collective: bus bandwidth and time by size, what was chosen for each size,
and bounds.

Here: its facts, charts and tables. Not here: HTML (`page.py`), timing (`api.collective_row`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from ..nccl import CollectiveRow, bus_factor
from ..units import BYTES_PER_US, NS_PER_US, counted
from .chart import PALETTE, Chart, tens
from .page import Fact, Page, Section, Table
from .quantity import Quantity, bandwidth, share

_BOUND = PALETTE[7]
_NOTE_BOUND = (
    "Dashed: the best that any algorithm between NPUs can do, given the bytes that have to leave "
    "each NPU and the latency to the farthest one."
)
_WHOLE_US = 1_000
"""Microseconds from which they are shown without a fraction."""
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def page(
    rows: Sequence[CollectiveRow],
    kind: str,
    platform: str,
    npus: int,
    backend: str,
    warnings: Sequence[str] = (),
) -> Page:
    """The page of `rows`, sizes of the collective `kind` on all NPUs of a platform."""
    return Page(
        title=f"{kind} on {platform}",
        lead=f"{counted(npus, 'NPU')}, network model: {backend}. Sizes as nccl-tests counts them.",
        verdict=_verdict(rows, kind),
        facts=list(_facts(rows, kind, npus)),
        warnings=warnings,
        sections=list(_sections(rows, kind, npus)),
    )


def _verdict(rows: Sequence[CollectiveRow], kind: str) -> str:
    best = max(rows, key=lambda row: row.busbw, default=None)
    if best is None or not best.busbw:
        return "Nothing was sent."
    said = f"{kind} reaches {_rate(best.busbw)} of bus bandwidth, at {_size(best.size)}"
    half = next((row for row in rows if row.busbw >= best.busbw / 2), best)
    said += f", and half of that from {_size(half.size)} on" if half is not best else ""
    if best.lower_bound_us and best.time_us:
        part = share(best.lower_bound_us / best.time_us)
        said += f"; unless switches reduce, no algorithm takes less than {part} of its time there"
    return f"{said}."


def _facts(rows: Sequence[CollectiveRow], kind: str, npus: int) -> Iterator[Fact]:
    if not rows:
        return
    best, first = max(rows, key=lambda row: row.busbw), rows[0]
    yield Fact("Best bus bandwidth", _rate(best.busbw), f"at {_size(best.size)}")
    yield Fact("Algorithm bandwidth", _rate(best.algbw), f"at {_size(best.size)}")
    yield Fact("Smallest size", _us(first.time_us), f"for {_size(first.size)}")
    if len(rows) > 1:
        yield Fact(
            "Mean bus bandwidth",
            _rate(sum(row.busbw for row in rows) / len(rows)),
            "over all sizes",
        )
    if bound := _bound(best, kind, npus):
        yield Fact("Bound", _rate(bound), f"at {_size(best.size)}, unless switches reduce")


def _sections(rows: Sequence[CollectiveRow], kind: str, npus: int) -> Iterator[Section]:
    timed = [row for row in rows if row.size and row.time_us]
    if timed:
        yield Section("Bandwidth", [_bandwidths(timed, kind, npus)])
        yield Section("Time", [_times(timed)])
    if any(row.algorithm for row in rows):
        yield Section("What the library chose", [_choices(rows)])
    if timed and len(timed[0].utilisation) > 1:
        yield Section("Use of the network", [_utilisation(timed)])
    yield Section("Sizes", [_table(rows)])


def _bandwidths(rows: Sequence[CollectiveRow], kind: str, npus: int) -> Chart:
    records = [
        {"bytes": row.size, "size": _size(row.size), "value": row.busbw, "chosen": _chosen(row)}
        | {"bound": _bound(row, kind, npus)}
        for row in rows
    ]
    factor = bus_factor(kind, npus)
    note = (
        f"Bus bandwidth is size / time x {factor:.4g}: that of a link, if the algorithm wastes "
        "nothing."
    )
    return _curves("busbw", "Bus bandwidth by size", records, "GB/s", False, note)


def _times(rows: Sequence[CollectiveRow]) -> Chart:
    records = [
        {"bytes": row.size, "size": _size(row.size), "value": row.time_us, "chosen": _chosen(row)}
        | {"bound": row.lower_bound_us or None}
        for row in rows
    ]
    return _curves("times", "Time by size", records, "us", True, "")


def _chosen(row: CollectiveRow) -> str:
    return f"{row.algorithm} {row.protocol}".strip() or "simulated"


def _bound(row: CollectiveRow, kind: str, npus: int) -> float | None:
    """The bus bandwidth that no algorithm exceeds, GB/s; None where it is not known."""
    return (
        row.size / row.lower_bound_us / BYTES_PER_US * bus_factor(kind, npus)
        if row.lower_bound_us
        else None
    )


def _curves(
    name: str, title: str, records: list[dict[str, Any]], unit: str, log: bool, note: str
) -> Chart:
    """Points by size, coloured by what was chosen, with the bound where it is known."""
    across = _sizes([record["bytes"] for record in records])
    up: dict[str, Any] = {"field": "value", "type": "quantitative", "title": unit}
    shown = [record[key] for record in records for key in ("value", "bound") if record[key]]
    up |= tens(shown) if log else {}
    tooltip = [
        {"field": "size", "title": "Size"},
        {"field": "value", "title": unit, "format": ".4~g"},
        {"field": "bound", "title": f"bound, {unit}", "format": ".4~g"},
        {"field": "chosen", "title": "Algorithm"},
    ]
    chosen = list(dict.fromkeys(record["chosen"] for record in records))
    legend: dict[str, Any] = {} if len(chosen) > 1 else {"legend": None}
    colour = {
        "field": "chosen",
        "type": "nominal",
        "title": None,
        "scale": {"domain": chosen},
        **legend,
    }
    bound = [
        {
            "transform": [{"filter": "isValid(datum.bound)"}],
            "mark": {"type": "line", "strokeDash": [4, 4], "color": _BOUND},
            "encoding": {"x": across, "y": {**up, "field": "bound"}},
        }
    ]
    known = any(record["bound"] for record in records)
    spec = {
        "height": 320,
        "layer": [
            *(bound if known else []),
            {"mark": {"type": "line", "color": "#bbbbbb"}, "encoding": {"x": across, "y": up}},
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {"x": across, "y": up, "color": colour, "tooltip": tooltip},
            },
        ],
    }
    return Chart(
        name,
        title,
        records,
        spec,
        " ".join(part for part in (note, _NOTE_BOUND if known else "") if part),
    )


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    """The axis of sizes: powers of two, no more than eight of them named."""
    first, last = max(min(sizes), 1).bit_length() - 1, max(sizes).bit_length()
    step = max(1, -(-(last - first) // 8))
    values = [
        2**power for power in range(first, last + 1, step) if min(sizes) <= 2**power <= max(sizes)
    ]
    cases = "".join(
        f"datum.value >= {count} ? datum.value / {count} + ' {unit}' : " for count, unit in _BINARY
    )
    axis = {"labelExpr": f"{cases}datum.value + ' B'", **({"values": values} if values else {})}
    scale = {"type": "log", "base": 2, "nice": False}
    return {"field": "bytes", "type": "quantitative", "title": "size", "scale": scale, "axis": axis}


def _choices(rows: Sequence[CollectiveRow]) -> Table:
    """Algorithms and protocols by the sizes that they were chosen for."""
    runs = [(name, list(run)) for name, run in groupby(rows, _chosen)]
    cells = [
        (
            _size(run[0].size)
            if len(run) == 1
            else f"{_size(run[0].size)} to {_size(run[-1].size)}",
            run[0].algorithm,
            run[0].protocol,
            _rate(max(row.busbw for row in run)),
        )
        for _, run in runs
    ]
    return Table(
        "By size", ("Sizes", "Algorithm", "Protocol", "Best bus bandwidth"), cells, labels=3
    )


def _utilisation(rows: Sequence[CollectiveRow]) -> Chart:
    """The share of each dimension's links that was used."""
    records = [
        {
            "bytes": row.size,
            "size": _size(row.size),
            "dimension": f"dimension {at + 1}",
            "used": used,
        }
        for row in rows
        for at, used in enumerate(row.utilisation)
    ]
    across = _sizes([row.size for row in rows])
    up = {
        "field": "used",
        "type": "quantitative",
        "title": "share of its links used",
        "axis": {"format": "%"},
    }
    tooltip = [{"field": "size"}, {"field": "dimension"}, {"field": "used", "format": ".1%"}]
    spec = {
        "height": 240,
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": across,
            "y": up,
            "color": {"field": "dimension", "type": "nominal", "title": None},
            "tooltip": tooltip,
        },
    }
    return Chart(
        "utilisation",
        "Use of each dimension's links by size",
        records,
        spec,
        "Dimension 1 is the innermost.",
    )


def _table(rows: Sequence[CollectiveRow]) -> Table:
    library = any(row.algorithm for row in rows)
    bounded = any(row.lower_bound_us for row in rows)
    heads = [
        "Size",
        "Time",
        "Algorithm bandwidth",
        "Bus bandwidth",
        *(["Bound", "Share of the time"] if bounded else []),
    ]
    cells = []
    for row in rows:
        bound = [_us(row.lower_bound_us), _part(row)] if row.lower_bound_us else ["", ""]
        chosen = [_chosen(row)] if library else []
        numbers = [
            _us(row.time_us),
            _rate(row.algbw),
            _rate(row.busbw),
            *(bound if bounded else []),
        ]
        cells.append([Quantity(_size(row.size), row.size), *chosen, *numbers])
    names = [heads[0], *(["Chosen"] if library else []), *heads[1:]]
    return Table("Every size", names, cells, labels=2 if library else 1)


def _us(us: float) -> str:
    """A time in the unit of the chart, as nccl-tests prints it."""
    return Quantity(f"{us:,.0f} us" if us >= _WHOLE_US else f"{us:#.4g} us", us * NS_PER_US)


def _part(row: CollectiveRow) -> str:
    return share(row.lower_bound_us / row.time_us) if row.time_us else ""


def _rate(gb_per_s: float) -> str:
    return bandwidth(gb_per_s)


def _size(count: int) -> str:
    """`64 MiB`, as the sizes are asked for."""
    for unit, name in _BINARY:
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"
