"""Communication of each layer of a model in each pass, and the waits of its chunks.

Here: raw communication by layer and pass (ISPASS 2020, Fig. 13), and the delays of queues and of
the network by layer and phase (ISPASS Fig. 16). Not here: the parts of each layer
(`run_layers.py`), delays over all layers (`run_network.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..schema import Detail, LayerPhase, Report
from .layer_chart import PASSES, delays, stacked
from .page import Part, Section, Table
from .quantity import number, time
from .scale import Scale

_Row = TypeVar("_Row")
_TIMES = {"compute_ns": "Compute", "comm_ns": "Raw communication", "exposed_comm_ns": "Exposed"}
_ROWS = 200
"""Rows of a table: those with the most communication or delay."""
_MEAN = "Mean of a chunk: the queues of all its phases, then the network. P0 is the ready queue."


def parts(report: Report, detail: Detail, order: Sequence[str], scale: Scale) -> list[Part]:
    """Layers by pass; nothing where no layer says its pass. `order` has the layers to draw."""
    rows = means(report, detail)
    if not any(row["pass"] != "other" for row in rows):
        return []
    place = {layer: at for at, layer in enumerate(order)}
    drawn = [
        {"layer": row["layer"], "part": PASSES[row["pass"]][0], "time": row["comm_ns"] / scale.ns}
        for row in sorted(
            (row for row in rows if row["layer"] in place), key=lambda row: place[row["layer"]]
        )
        if row["comm_ns"]
    ]
    colours = dict(PASSES.values())
    title = "Communication by layer and pass"
    chart = [stacked("layer_passes", title, drawn, colours, scale.unit)] if drawn else []
    return [*chart, _table(rows, order)]


def means(report: Report, detail: Detail) -> list[dict[str, Any]]:
    """Means over the ranks that have the layer, by layer and pass."""
    counts = [each["count"] for each in report["classes"]]
    ranks: dict[str, int] = {}
    sums: dict[tuple[str, str], dict[str, float]] = {}
    for layer in detail["layers"]:
        if layer["rank_class"] >= len(counts):
            continue
        count = counts[layer["rank_class"]]
        ranks[layer["layer"]] = ranks.get(layer["layer"], 0) + count
        for each in layer["passes"]:
            entry = sums.setdefault((layer["layer"], each["pass_name"]), dict.fromkeys(_TIMES, 0.0))
            for key in _TIMES:
                entry[key] += each[key] * count  # type: ignore[literal-required]
    return [
        {"layer": layer, "pass": name, **{key: entry[key] / (ranks[layer] or 1) for key in _TIMES}}
        for (layer, name), entry in sums.items()
        if name in PASSES
    ]


def _table(rows: Sequence[Mapping[str, Any]], order: Sequence[str]) -> Table:
    place = {layer: i for i, layer in enumerate(order)}
    shown, note = _largest(rows, lambda row: float(sum(row[key] for key in _TIMES)))
    shown = sorted(
        shown,
        key=lambda row: (place.get(row["layer"], len(place)), list(PASSES).index(row["pass"])),
    )
    cells = [
        [row["layer"], PASSES[row["pass"]][0], *(time(row[key], 3) for key in _TIMES)]
        for row in shown
    ]
    return Table("Layers by pass", ["Layer", "Pass", *_TIMES.values()], cells, note, labels=2)


def waits(detail: Detail, scale: Scale) -> Section | None:
    """Queue and network delay by layer; nothing without collectives."""
    found = detail["layer_phases"]
    if not found:
        return None
    rows: list[dict[str, Any]] = [
        {"layer": layer, "part": part, "time": mean / scale.ns}
        for layer, each in _by_layer(found).items()
        for part, mean in delay(each).items()
    ]
    colours = delays([row["part"] for row in rows])
    title = "Queue and network delay by layer"
    chart = stacked("layer_delays", title, rows, colours, scale.unit, _MEAN)
    return Section("Delays by layer", [chart, _phases(found)])


def _by_layer(found: Iterable[LayerPhase]) -> dict[str, list[LayerPhase]]:
    groups: dict[str, list[LayerPhase]] = {}
    for row in found:
        groups.setdefault(row["layer"], []).append(row)
    largest = sorted(groups, key=lambda layer: -sum(map(_weight, groups[layer])))[:_ROWS]
    return {layer: rows for layer, rows in groups.items() if layer in set(largest)}


def delay(rows: Sequence[LayerPhase]) -> dict[str, float]:
    """Mean delays of these rows by part, `queue P1` and `network P1`, ns: those of a chunk in each
    phase."""
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for row in rows:
        phase = row["phase"].partition(" ")[0]
        for part, value in (("queue", row["queue_ns"]), ("network", row["network_ns"])):
            if part == "network" and row["dim"] is None:
                continue
            name = f"{part} {phase}"
            sums[name] = sums.get(name, 0.0) + value * row["count"]
            counts[name] = counts.get(name, 0) + row["count"]
    return {name: total / counts[name] for name, total in sums.items()}


def _phases(found: Sequence[LayerPhase]) -> Table:
    shown, note = _largest(found, _weight)
    cells = [
        [
            row["layer"],
            PASSES.get(row["pass_name"], (row["pass_name"], ""))[0],
            row["phase"],
            number(row["count"]),
            time(row["queue_ns"], 3),
            time(row["network_ns"], 3),
        ]
        for row in shown
    ]
    heads = ["Layer", "Pass", "Phase", "Count", "Waiting", "On the network"]
    return Table("Phases by layer and pass", heads, cells, note, labels=3)


def _weight(row: LayerPhase) -> float:
    return row["count"] * (row["queue_ns"] + row["network_ns"])


def _largest(rows: Sequence[_Row], weight: Callable[[_Row], float]) -> tuple[list[_Row], str]:
    """The largest rows in their order, and a note where some are left out."""
    kept = sorted(sorted(range(len(rows)), key=lambda i: (-weight(rows[i]), i))[:_ROWS])
    left = len(rows) - len(kept)
    note = f"The largest; {number(left)} more are in the JSON." if left else ""
    return [rows[i] for i in kept], note
