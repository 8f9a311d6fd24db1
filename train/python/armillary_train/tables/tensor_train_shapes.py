"""Tables as trains of tensors: which ones, and the shapes of their cores. Needs no torch.

A table of `rows` x `dim` is a product of cores (Yin et al., TT-Rec, MLSys 2021, section 3). With
digits `i1, i2, i3` of a row's number, and `rows <= m1 m2 m3`, `dim = n1 n2 n3`:

    row = G1[i1] G2[i2] G3[i3],   Gk[ik] is [r(k-1), nk, rk],   r0 = r3 = 1"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from armillary.errors import InputError, Problem
from armillary.units import counted

MOST_CORES = 8
MOST_RANK = 1024
_WIDEST = 2**16
"""Most elements of a slice of a core, which is a row of a table of the engine."""
GRAMMAR = "rank=N, then cores=N and rows>=N where wanted, such as rank=16,rows>=1e6"


@dataclass(frozen=True, slots=True)
class Rule:
    """Which tables become trains of tensors, and how."""

    rank: int
    """Rank between each two cores."""
    cores: int = 3
    rows: int = 1_000_000
    """Tables with fewer rows stay as they are."""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule that `--tensor-train` gives. Raises `InputError` naming the faulty part."""
        found: dict[str, int] = {}
        most = {"rank": MOST_RANK, "cores": MOST_CORES, "rows": 2**48}
        for part in text.split(","):
            match = re.fullmatch(r"\s*(rank=|cores=|rows>=)\s*([0-9.]+(?:[eE]\+?[0-9]+)?)\s*", part)
            if match is None or match[1].rstrip(">=") in found:
                raise _refused(f"{part.strip()!r} can't be read", GRAMMAR)
            name = match[1].rstrip(">=")
            least = 2 if name == "cores" else 1
            value = _number(match[2])
            if value is None or not least <= value <= most[name]:
                allowed = f"a whole number from {least} to {most[name]:,}"
                raise _refused(f"{name} {match[2]} is out of range", allowed)
            found[name] = value
        if "rank" not in found:
            raise _refused("no rank", GRAMMAR)
        return cls(**found)

    def shape(self, table: str, rows: int, dim: int) -> Shape | None:
        """The cores of a table; `None` if it stays as it is. Raises `InputError` as `Shape`."""
        if rows < self.rows:
            return None
        return Shape.of(table, rows, dim, self.rank, self.cores)


@dataclass(frozen=True, slots=True)
class Shape:
    """The cores of one table."""

    table: str
    rows: int
    dim: int
    row_factors: tuple[int, ...]
    """Slices of each core; their product is at least `rows`."""
    dim_factors: tuple[int, ...]
    """Columns of each core; their product is `dim`."""
    ranks: tuple[int, ...]
    """Ranks between the cores, one fewer than cores."""

    def __post_init__(self) -> None:
        """Raises `InputError`: factors that do not fit, a rank below 1, slices that are too
        large."""
        place, cores = f"table {self.table!r}", len(self.row_factors)
        problems = []

        def refuse(said: str, allowed: str) -> None:
            problems.append(Problem("", place, said, allowed))

        if cores < 2 or len(self.dim_factors) != cores or len(self.ranks) != cores - 1:
            said = f"{counted(cores, 'factor')} of rows, {len(self.dim_factors)} of columns, "
            refuse(
                said + counted(len(self.ranks), "rank"), "one fewer ranks than factors, from 2 on"
            )
        if min(self.row_factors) < 1 or math.prod(self.row_factors) < self.rows:
            said = f"factors of rows {_text(self.row_factors)} for {counted(self.rows, 'row')}"
            refuse(said, f"a product of at least {self.rows:,}")
        if min(self.dim_factors) < 1 or math.prod(self.dim_factors) != self.dim:
            said = f"factors of columns {_text(self.dim_factors)} for rows of {self.dim}"
            refuse(said, f"a product of {self.dim}")
        if self.ranks and min(self.ranks) < 1:
            refuse(f"ranks {_text(self.ranks)}", "1 or more")
        if not problems and max(self.slices) > _WIDEST:
            refuse(f"a core with slices of {max(self.slices):,} elements", f"at most {_WIDEST:,}")
        if problems:
            raise InputError(problems)

    @classmethod
    def of(cls, table: str, rows: int, dim: int, rank: int, cores: int = 3) -> Shape:
        """Factors that are about equal. Raises `InputError` when `dim` is not a product of `cores`
        numbers from 2 on."""
        factors = _factors(dim, cores)
        if factors is None:
            said = f"rows of {dim} elements are not a product of {cores} numbers from 2 on"
            fit = [str(each) for each in range(2, cores) if _factors(dim, each)]
            other = f"--tensor-train with cores={' or '.join(fit)}, or " if fit else ""
            allowed = f"{other}a multiple of {2**cores}, such as {-(-dim // 2**cores) * 2**cores}"
            raise InputError([Problem("", f"table {table!r}", said, allowed)])
        return cls(table, rows, dim, _covering(rows, cores), factors, (rank,) * (cores - 1))

    @property
    def bounds(self) -> tuple[int, ...]:
        """The ranks with those at both ends, which are 1."""
        return (1, *self.ranks, 1)

    @property
    def slices(self) -> tuple[int, ...]:
        """Elements of a slice of each core."""
        pairs = zip(self.bounds, self.dim_factors, self.bounds[1:], strict=False)
        return tuple(before * columns * after for before, columns, after in pairs)

    @property
    def elements(self) -> int:
        """Elements of all cores."""
        return sum(m * n for m, n in zip(self.row_factors, self.slices, strict=True))

    @property
    def ratio(self) -> float:
        """How many times more elements the whole table has."""
        return self.rows * self.dim / self.elements


def _refused(said: str, allowed: str) -> InputError:
    return InputError([Problem("", "--tensor-train", said, allowed)])


def _number(text: str) -> int | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None


def _text(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers))


def _covering(rows: int, cores: int) -> tuple[int, ...]:
    """Numbers that are about equal, whose product is at least `rows`."""
    found: list[int] = []
    for left in range(cores, 0, -1):
        number = max(1, round(rows ** (1 / left)))
        while number**left < rows:
            number += 1
        while number > 1 and (number - 1) ** left >= rows:
            number -= 1
        found.append(number)
        rows = -(-rows // number)
    return tuple(found)


def _factors(number: int, count: int, least: int = 2) -> tuple[int, ...] | None:
    """`count` ascending numbers from `least` on with the product `number`, the largest of them as
    small as possible."""
    if count == 1:
        return (number,) if number >= least else None
    best: tuple[int, ...] | None = None
    factor = least
    while factor**count <= number:
        if number % factor == 0:
            rest = _factors(number // factor, count - 1, factor)
            if rest is not None and (best is None or rest[-1] < best[-1]):
                best = (factor, *rest)
        factor += 1
    return best
