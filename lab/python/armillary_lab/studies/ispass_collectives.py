"""Collectives on the topologies of the ISPASS 2020 paper: what studies D1 to D3 share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from armillary.api import collective_us
from armillary.platform import Platform

from ..study import StudyRow

if TYPE_CHECKING:
    from armillary.report.chart import Chart

KIB, MIB = 2**10, 2**20
SIZES = (64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
"""Bytes of an NPU. The figures print no numbers; these are around those that the text names."""
SMALL, LARGE = SIZES[0], SIZES[-1]
MARGIN = 0.05
"""Least relative difference that counts: the paper prints none."""

SETUP = (
    "Table IV: 25 GB/s links between packages and 200 GB/s ones within, 94 % of them data, 90 and"
    " 200 cycles, endpoint delay 10 cycles; a cycle is 1 ns, software routing, LIFO, 4 chunks "
    "(the authors' own torus file). Rings of a dimension that run one way are one link of their "
    "sum, and half of the chunks run each way. "
)


def size_of(size: int) -> str:
    """Bytes in KiB or MiB."""
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def platform(name: str, settings: Mapping[str, object] | None = None) -> Platform:
    """The preset `paper-ispass-NAME`."""
    return Platform.load(f"paper-ispass-{name}", settings)


@cache
def _time(
    kind: str, size: int, name: str, settings: tuple[tuple[str, object], ...], on: str
) -> float:
    return collective_us(kind, size, platform(name, dict(settings)), backend=on)


def time(
    kind: str, size: int, name: str, backend: str, settings: Mapping[str, object] | None = None
) -> float:
    """How long a collective takes on a preset, us."""
    return _time(kind, size, name, tuple((settings or {}).items()), backend)


def lines(rows: Sequence[StudyRow], name: str, title: str, figure: str) -> Chart:
    """Times over sizes: the rows in us, called `WHAT, SIZE`, on the first backend."""
    from armillary.report.chart import Chart

    sizes = {size_of(size): size / MIB for size in SIZES}
    records = []
    for row in rows:
        what, _, size = row.setup.rpartition(", ")
        if row.unit == "us" and row.backend == rows[0].backend and size in sizes:
            records.append({"what": what, "MiB": sizes[size], "us": row.ours})
    axis = {"type": "quantitative", "scale": {"type": "log"}}
    spec = {
        "mark": {"type": "line", "point": True, "tooltip": True},
        "encoding": {
            "x": {"field": "MiB", "title": "size, MiB", **axis},
            "y": {"field": "us", "title": "us", **axis},
            "color": {"field": "what", "type": "nominal", "title": None},
        },
    }
    return Chart(name, f"{title} ({figure})", records, spec)
