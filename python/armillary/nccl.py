"""The conventions of nccl-tests: sizes, element counts, bandwidths, columns.

`algbw = size / time`, `busbw = algbw * factor(n)`, so that busbw of a bandwidth-optimal algorithm
is the bandwidth of a link whatever the number of ranks. Source: nccl-tests, doc/PERFORMANCE.md;
gather and scatter as its tests of that name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from .errors import InputError, Problem
from .units import PS_PER_NS, PS_PER_US

TYPES = {
    "int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "half": 2, "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1,
}  # fmt: skip
"""Bytes of an element."""

OPERATIONS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
)
"""Collectives with a size, hence with a bandwidth (a barrier has none)."""

CHOICE = ("algorithm", "protocol")
"""Columns of a row that only a library fills."""
ENDS = ("low_us", "high_us")
"""Ends of the interval of a row, which only a library's times have."""

_ALIASES = {
    "alltoall": "all_to_all",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
}
_REDUCING = {"all_reduce", "reduce", "reduce_scatter"}
_ROOTED = {"broadcast", "reduce", "gather", "scatter"}
_SHARED_OUT = {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"}
_ALIGNED = {"all_gather", "reduce_scatter", "all_to_all"}
_CONTRIBUTION = {"all_gather", "gather"}
_ALIGNMENT = 16
_LARGEST = 2**60


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One line of the table. Times in us, bandwidths in GB/s (1e9 bytes)."""

    size: int
    count: int
    type: str
    redop: str
    root: int
    time_us: float
    algbw: float
    busbw: float
    digest: str
    dimension_bound_us: float = 0.0
    """The time in which the busiest dimension could carry its bytes."""
    network_bound_us: float = 0.0
    """The time in which all dimensions together could."""
    lower_bound_us: float = 0.0
    """No algorithm of NPUs that send to one another is faster; 0 where that is not known: graphs,
    reducing switches."""
    utilisation: list[float] = field(default_factory=list)
    """Utilisation of each dimension, innermost first, 0..1."""
    algorithm: str = ""
    """Algorithm that the platform's library chose; empty without a library."""
    protocol: str = ""
    low_us: float = 0.0
    """80 % of measurements should lie from here ..."""
    high_us: float = 0.0
    """... to here: docs/models/uncertainty.md."""
    warnings: list[str] = field(default_factory=list)
    """Warnings of the run, and what it assumed."""

    def as_dict(self) -> dict[str, object]:
        """For JSON; the library's choice and the interval only where there is one. Without the
        warnings, which documents have once for all rows."""
        given = asdict(self)
        given.pop("warnings")
        optional = CHOICE + ENDS
        return {key: value for key, value in given.items() if key not in optional or value}


def operation(name: str) -> str:
    """The collective meant by `name`, our spelling or that of nccl-tests (`alltoall`,
    `all_reduce_perf`)."""
    plain = name.removesuffix("_perf").removesuffix("_perf_mpi").lower().replace("-", "_")
    known = _ALIASES.get(plain, plain)
    if known not in OPERATIONS:
        raise InputError(
            [
                Problem(
                    "",
                    "collective",
                    f"{name!r} is not a collective that can be timed",
                    ", ".join(OPERATIONS),
                )
            ]
        )
    return known


def element_bytes(dtype: str) -> int:
    """Bytes of an element of `dtype`."""
    if dtype not in TYPES:
        raise InputError(
            [Problem("", "--datatype", f"{dtype!r} is not a data type", ", ".join(TYPES))]
        )
    return TYPES[dtype]


def size_bytes(text: str, place: str) -> int:
    """Bytes of a size as nccl-tests reads it: a number with an optional K, M, G or T, powers of
    1024."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if not match:
        raise InputError(
            [
                Problem(
                    "",
                    place,
                    f"{text!r} is not a size",
                    "a number with an optional K, M, G or T, such as 8 or 64M",
                )
            ]
        )
    size = float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ")
    if size > _LARGEST:
        raise InputError([Problem("", place, f"{text!r} is too large", "up to 1048576T (1 EiB)")])
    return int(size)


def sizes(first: int, last: int, factor: int | None, step: int | None) -> Iterator[int]:
    """Sizes from `first` to `last`, each `factor` times the one before, or `step` bytes more."""
    if first > last:
        raise InputError(
            [Problem("", "-b", f"{first} bytes is more than -e {last} bytes", "-b not above -e")]
        )
    if factor is not None and (factor < 2 or first < 1):
        raise InputError(
            [
                Problem(
                    "",
                    "-f",
                    f"sizes from {first} by factor {factor} never reach the end",
                    "-f 2 or more, -b 1 or more",
                )
            ]
        )
    if factor is None and step is not None and step < 1:
        raise InputError(
            [Problem("", "-i", f"a step of {step} bytes never reaches the end", "-i 1 or more")]
        )
    return _sizes(first, last, factor, step or 2**20)


def _sizes(size: int, last: int, factor: int | None, step: int) -> Iterator[int]:
    while size <= last:
        yield size
        size = size * factor if factor is not None else size + step


def root_rank(root: int, ranks: int) -> int:
    """`root`, which must be one of the ranks."""
    if not 0 <= root < ranks:
        raise InputError([Problem("", "root", f"rank {root} does not exist", f"0 to {ranks - 1}")])
    return root


def element_count(kind: str, size: int, ranks: int, width: int) -> int:
    """The `count` column: elements a rank passes to the call. Shared-out buffers are cut to equal
    parts."""
    if not 0 <= size <= _LARGEST:
        raise InputError(
            [Problem("", "size", f"{size} bytes is not a size", f"0 to {_LARGEST} bytes (1 EiB)")]
        )
    count = size // width
    if kind in _SHARED_OUT:
        count //= ranks
    if kind in _ALIGNED:
        count -= count % (_ALIGNMENT // width)
    return count


def row(
    kind: str, count: int, dtype: str, ranks: int, root: int, time_ps: int, digest: str
) -> CollectiveRow:
    """A line of the table from the time of one operation."""
    size = total_bytes(kind, count, TYPES[dtype], ranks)
    algbw = size / time_ps * PS_PER_NS if time_ps else 0.0
    redop = "sum" if kind in _REDUCING else "none"
    at = root if kind in _ROOTED else -1
    return CollectiveRow(
        size,
        count,
        dtype,
        redop,
        at,
        time_ps / PS_PER_US,
        algbw,
        algbw * bus_factor(kind, ranks),
        digest,
    )


def total_bytes(kind: str, count: int, width: int, ranks: int) -> int:
    """The `size` column: the larger of a rank's two buffers."""
    return count * width * (ranks if kind in _SHARED_OUT else 1)


def npu_bytes(kind: str, count: int, width: int, ranks: int) -> int:
    """Bytes the simulator wants: the input buffer, or one NPU's contribution to a gathering
    collective."""
    return count * width if kind in _CONTRIBUTION else total_bytes(kind, count, width, ranks)


def measured_bytes(kind: str, size: int, ranks: int) -> int:
    """The same of a printed size, which is what was moved: older nccl-tests align less than
    `element_count` does."""
    return size // ranks if kind in _CONTRIBUTION else size


def bus_factor(kind: str, ranks: int) -> float:
    """busbw / algbw over `ranks` ranks."""
    if kind == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in _SHARED_OUT else 1.0


def header(choice: bool = False) -> str:
    """The column heads, with those of a library's choice at the end."""
    names = ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2)
    units = ("(B)", "(elements)", "", "", "", *("(us)", "(GB/s)", "(GB/s)", "") * 2)
    groups = "#" + " " * 62 + "out-of-place                       in-place          "
    heads = _heads(names) + "".join(f"  {name:>9}" for name in CHOICE if choice)
    return "\n".join((groups, heads, _heads(units)))


def _heads(cells: tuple[str, ...]) -> str:
    widths = (10, 12, 8, 6, 6, 7, 6, 6, 6, 7, 6, 6, 6)
    return (
        "# "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        + " "
    )


def line(row: CollectiveRow) -> str:
    """One line. In place and out of place take the same time here; nothing is computed, so nothing
    can be wrong."""
    times = f"  {_number(row.time_us, 7)}  {_number(row.algbw, 6)}  {_number(row.busbw, 6)}    N/A"
    choice = f"   {row.algorithm:>9}  {row.protocol:>9}" if row.algorithm else ""
    return (
        f"{row.size:>12}  {row.count:>12}  {row.type:>8}  {row.redop:>6}  "
        f"{row.root:>6}{times}{times}{choice}"
    )


def footer(rows: list[CollectiveRow]) -> str:
    """The average over all lines."""
    mean = sum(row.busbw for row in rows) / len(rows) if rows else 0.0
    return f"# {'Avg bus bandwidth':<20} : {mean:g} \n#"


def _number(value: float, width: int) -> str:
    """The decimals that fit the column, at most two."""
    digits = len(str(int(value))) if value >= 1 else 0
    decimals = 2 if digits < width - 2 else 1 if digits < width - 1 else 0
    text = f"{value:{width}.{decimals}f}"
    return text if len(text) <= width else f"{value:{width}.{1 if width >= 7 else 0}e}"
