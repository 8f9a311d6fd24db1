"""Bars by layer, in the form of the ASTRA-SIM papers: one bar for each layer, its parts one above
the other.

Here: the charts, for pages of runs (`run_layers.py`, `run_passes.py`) and of studies. Not here:
where the numbers come from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .chart import COLOURS, Chart, Row

RAW = "#f2b48c"
"""Communication in flight, exposed or not."""
PASSES = {
    "forward": ("forward", "#0072b2"),
    "input_gradient": ("input gradient", "#d55e00"),
    "weight_gradient": ("weight gradient", "#009e73"),
    "recompute": ("recomputation", "#cc79a7"),
    "other": ("other", "#8c6d31"),
}
"""Passes of a training step: name and colour."""
END_TO_END = {"compute": COLOURS["compute"], "exposed communication": COLOURS["communication"]}
_QUEUE, _NETWORK = ("#0b4f7a", "#b5dcf2"), ("#a33c00", "#f9d5b5")
"""The darkest and the lightest colour of waits in queues and of times on the network."""
_COLUMNS = 6
"""Parts of a legend side by side."""
_LABELS = 24
"""Layers named below a chart of more."""


def axis(layers: Sequence[str]) -> dict[str, Any]:
    """Names of layers in their order, of very many every second, third, ..."""
    found = list(dict.fromkeys(layers))
    shown = {"labelAngle": -50, "values": found[:: -(-len(found) // _LABELS)]}
    shown |= {"labelLimit": 0, "labelExpr": "truncate(datum.label, 20)"}
    return {"field": "layer", "type": "nominal", "sort": None, "title": None, "axis": shown}


def stacked(
    name: str,
    title: str,
    rows: Sequence[Row],
    colours: Mapping[str, str],
    unit: str,
    note: str = "",
) -> Chart:
    """A bar for each layer. Rows have `layer`, `part` and `time`, in `unit`; parts stand in the
    order of `colours`."""
    present = {row["part"] for row in rows}
    parts = [part for part in colours if part in present]
    legend = {"columns": _COLUMNS} if len(parts) > _COLUMNS else {}
    palette = {"domain": parts, "range": [colours[part] for part in parts]}
    spec = {
        "mark": "bar",
        "height": 240,
        "encoding": {
            "x": axis([row["layer"] for row in rows]),
            "y": {"field": "time", "type": "quantitative", "title": f"time, {unit}"},
            "color": {
                "field": "part",
                "type": "nominal",
                "title": None,
                "scale": palette,
                "legend": legend,
            },
            "order": {"field": "place"},
            "tooltip": [
                {"field": "layer"},
                {"field": "part"},
                {"field": "time", "title": f"time, {unit}", "format": ",.4~r"},
            ],
        },
    }
    placed = [{**row, "place": parts.index(row["part"])} for row in rows]
    return Chart(name, title, placed, spec, note)


def delays(parts: Sequence[str]) -> dict[str, str]:
    """Colours of `queue P0`, `queue P1`, ... and of `network P1`, ... in this order: shades of one
    colour for waits, of another one for the network."""
    found: dict[str, str] = {}
    for what, ends in (("queue", _QUEUE), ("network", _NETWORK)):
        named = sorted({part for part in parts if part.startswith(what)}, key=_position)
        found |= dict(zip(named, _shades(*ends, len(named)), strict=True))
    return found


def _position(part: str) -> tuple[int, str]:
    """The number of the phase in `queue P2`, and the whole of what has none."""
    found = re.search(r" P(\d{1,9})$", part)
    return (int(found[1]), "") if found else (0, part)


def _shades(dark: str, light: str, count: int) -> list[str]:
    first, last = ([int(code[i : i + 2], 16) for i in (1, 3, 5)] for code in (dark, light))
    steps = [i / max(count - 1, 1) for i in range(count)]
    mixed = ([a + (b - a) * step for a, b in zip(first, last, strict=True)] for step in steps)
    return ["#" + "".join(f"{round(value):02x}" for value in colour) for colour in mixed]
