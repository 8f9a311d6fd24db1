"""An all-reduce of 64 packages on one, two and three dimensions (ISPASS 2020, Fig. 10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from armillary.units import counted

from ..study import Study, StudyRow, claimed, drawn, printed, unreferenced
from .ispass import Torus
from .ispass_collectives import LARGE, MARGIN, MIB, SETUP, SIZES, SMALL, lines, size_of, time

if TYPE_CHECKING:
    from armillary.report.chart import Chart

WHERE = "section V-B; Fig. 10"
PRESET = "torus-4x4x4-symmetric"
"""All links as fast as those between packages; baseline all-reduce."""
LINE, SQUARE, FLAT, CUBE = Torus(1, 64, 1), Torus(1, 8, 8), Torus(2, 8, 4), Torus(4, 4, 4)
SHAPES = (LINE, SQUARE, FLAT, CUBE)
UP_TO = 4.0
"""MiB up to which 4x4x4 beats 1x8x8 (section V-B)."""

Links = Mapping[Torus, tuple[int, ...]]
"""Links of an NPU in each dimension of more than one package, innermost first."""
TABLE: Links = {LINE: (4,), SQUARE: (4, 4), FLAT: (2, 4, 4), CUBE: (2, 4, 4)}
"""Table IV: 2 rings of both ways in each dimension between packages, 2 one-way local ones."""
EIGHT: Links = {LINE: (8,), SQUARE: (4, 4), FLAT: (2, 3, 3), CUBE: (2, 3, 3)}
ALIKE: Links = {LINE: (4,), SQUARE: (4, 4), FLAT: (4, 4, 4), CUBE: (4, 4, 4)}
SPLITS = {"8 links in all": EIGHT, "4 links in each dimension": ALIKE}

DRAWN = "the figure prints no number"
LONGER = (
    "126 rounds against 28 decide small messages, bytes large ones: each chunk crosses its "
    "dimensions one after the other, so it is 28/8 of the bytes against 126/64 on links as fast. "
    "The paper finds 1x8x8 faster at all its sizes, which it does not print"
)
MORE = (
    "34/8 of the bytes against 28/8 decide large messages, as the paper says. In small ones 22 "
    "rounds against 28 decide, where the paper counts the longest ring only, which is the same"
)
HOPS = (
    "18 rounds against 22 decide small messages. In large ones 36/8 of the bytes against 34/8 do,"
    " half of them on the local rings; the paper counts hops only"
)
FEWER = "18 rounds against 28"
BYTES = "36/8 of the bytes against 28/8, as the paper explains"
CROSSING = (
    "18 rounds against 28, 36/8 of the bytes against 28/8: they are even where 10 rounds take as "
    "long as the additional bytes. A round here costs 210 cycles and its bytes; the paper's, with "
    "flits and messages of 512 bytes, must cost far more"
)
ENDPOINT = "what a round may cost in the paper: with 10 us for each they are even near its 4 MiB"
SPLIT = "what the paper does not print: how the links are shared out among dimensions"
CHUNKS = "what the paper does not print: with more chunks the dimensions work at the same time"


def settings(shape: Torus, links: Links = TABLE) -> dict[str, object]:
    """Topology and links of a shape."""
    sizes = [n for n in (shape.local, shape.vertical, shape.horizontal) if n > 1]
    each = [
        f"{{bandwidth: 25 GB/s, count: {count}, per: npu, efficiency: 94 %, "
        f"latency: {90 if shape.local > 1 and place == 0 else 200} ns}}"
        for place, count in enumerate(links[shape])
    ]
    topology = "_".join(f"Ring({n})" for n in sizes)
    return {"topology": topology, "links": f"[{', '.join(each)}]"}


def took(
    shape: Torus,
    size: int,
    backend: str,
    links: Links = TABLE,
    more: Mapping[str, object] | None = None,
) -> float:
    """An all-reduce on a shape, us."""
    return time("all_reduce", size, PRESET, backend, {**settings(shape, links), **(more or {})})


def even(backend: str, links: Links = TABLE, more: Mapping[str, object] | None = None) -> float:
    """Size in MiB up to which 4x4x4 beats 1x8x8, to 2 %; 0 if it never does."""

    def wins(size: float) -> bool:
        bytes_ = int(size * MIB)
        return took(CUBE, bytes_, backend, links, more) < took(SQUARE, bytes_, backend, links, more)

    low, high = 2.0**-10, 2.0**8
    if not wins(low):
        return 0.0
    while high / low > 1.02:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if wins(middle) else (low, middle)
    return low


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Times and claims on each backend, then what the paper's open parameters do."""
    found = [row for backend in backends for row in (*_times(backend), *_claims(backend))]
    return [*found, *_sensitivity(backends[0])]


def _times(backend: str) -> Iterator[StudyRow]:
    for shape in SHAPES:
        for size in SIZES:
            setup = f"{shape}, {size_of(size)}"
            yield StudyRow(
                setup, backend, drawn("Fig. 10"), took(shape, size, backend), "us", DRAWN
            )


def _claims(backend: str) -> Iterator[StudyRow]:
    above = claimed(1.0, WHERE, ">", MARGIN)
    for slow, fast, why in ((LINE, SQUARE, LONGER), (FLAT, SQUARE, MORE), (FLAT, CUBE, HOPS)):
        for size in (SMALL, LARGE):
            ratio = took(slow, size, backend) / took(fast, size, backend)
            setup = f"{slow} over {fast} at {size_of(size)}"
            yield StudyRow(setup, backend, above, ratio, "x", why)
    for slow, fast, size, why in ((SQUARE, CUBE, SMALL, FEWER), (CUBE, SQUARE, LARGE, BYTES)):
        ratio = took(slow, size, backend) / took(fast, size, backend)
        setup = f"{slow} over {fast} at {size_of(size)}"
        yield StudyRow(setup, backend, above, ratio, "x", why)
    limit = printed(UP_TO, "section V-B")
    setup = f"{CUBE} beats {SQUARE} up to"
    yield StudyRow(setup, backend, limit, even(backend), "MiB", CROSSING)


def _sensitivity(backend: str) -> Iterator[StudyRow]:
    none = unreferenced()
    beats = f"{CUBE} beats {SQUARE} up to"
    for delay in ("100 ns", "1 us", "10 us"):
        size = even(backend, more={"scheduler.endpoint_delay": delay})
        setup = f"endpoint delay {delay}: {beats}"
        yield StudyRow(setup, backend, none, size, "MiB", ENDPOINT)
    for chunks in (1, 16, 64):
        more = {"scheduler.chunks": chunks}
        yield StudyRow(
            f"{counted(chunks, 'chunk')}: {beats}",
            backend,
            none,
            even(backend, more=more),
            "MiB",
            CHUNKS,
        )
        line, square = (took(shape, LARGE, backend, more=more) for shape in (LINE, SQUARE))
        setup = f"{counted(chunks, 'chunk')}: {LINE} over {SQUARE} at {size_of(LARGE)}"
        yield StudyRow(setup, backend, none, line / square, "x", CHUNKS)
    for name, links in SPLITS.items():
        yield StudyRow(f"{name}: {beats}", backend, none, even(backend, links), "MiB", SPLIT)
        for slow, fast in ((LINE, SQUARE), (FLAT, CUBE)):
            ratio = took(slow, LARGE, backend, links) / took(fast, LARGE, backend, links)
            setup = f"{name}: {slow} over {fast} at {size_of(LARGE)}"
            yield StudyRow(setup, backend, none, ratio, "x", SPLIT)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 10: times over sizes."""
    return [lines(rows, "ispass-dimensions", "All-reduce of 64 packages", "Fig. 10")]


STUDY = Study(
    SETUP + "All links have 25 GB/s. Baseline all-reduce. In each dimension between packages 2 "
    "rings of both ways, within packages 2 one-way rings.",
    rows,
    charts,
)
