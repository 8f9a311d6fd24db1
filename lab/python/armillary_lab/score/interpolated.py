"""`python -m armillary_lab.score.interpolated [KIND...] [--most N]`: how well times between
measured kernels are interpolated.

Kernels of the package's tables are left out in three ways: one row at a time; whole shapes, which
are all rows with the same widths, heads or models; and the range above a kernel, all rows whose
first number is at least as large. The rest of the table predicts each of them, as a platform with
`npu.kernels.measured` does."""

from __future__ import annotations

import argparse
import functools
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from armillary.kernels.interpolated import Measured
from armillary.kernels.measured_file import Numbers, Rows, fields, made
from armillary.kernels.tables import SYSTEMS, TABLES, Table
from armillary.kernels.times import formula_us
from armillary.platform import Platform

from .. import command
from ..measured.kernels import shipped

_WHOLE = {
    "allreduce": ("members",),
    "attention": ("heads", "kv_heads", "head_dim"),
    "experts": ("hidden", "inner", "experts", "top_k"),
    "gemm": ("n", "k"),
    "mla": ("heads",),
}
"""Numbers of a whole shape."""
_FIRST = {
    "allreduce": "bytes",
    "attention": "length",
    "experts": "tokens",
    "gemm": "m",
    "mla": "length",
}
"""Number whose range is cut."""
_LEAST = 30
"""Rows of a group at least."""
WAYS = ("row", "shape", "range")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A kernel that the rest of the table predicts: ln(measured / predicted) by the formula and by
    interpolation, and whether the measurement lies within the interval."""

    formula: float
    interpolated: float
    within: bool


def left_out(table: Table, way: str, most: int) -> Iterator[LeftOut]:
    """Up to `most` kernels of a table of the package, drawn once."""
    draw = random.Random(0)
    groups = list(_groups(table))
    places = [(at, row) for at, (rows, _) in enumerate(groups) for row in range(len(rows.us))]
    for at, row in draw.sample(places, min(most, len(places))):
        rows, formula = groups[at]
        times = list(rows.times())
        numbers, us = times[row]
        names = fields(rows.kind)[1]
        kept = [each for each in times if not _goes(way, rows.kind, names, each[0], numbers)]
        if len({each for each, _ in kept}) < _LEAST // 2:
            continue
        rest = replace(
            rows,
            numbers=dict(zip(names, zip(*(each for each, _ in kept), strict=True), strict=True)),
            us=tuple(each for _, each in kept),
        )
        measured = Measured(rest, formula)
        (ours,) = formula([numbers])
        found, ends = measured.time(numbers, ours), measured.interval(numbers)
        if found is not None and ends is not None:
            error = math.log(us / found.us)
            within = ends[0] <= math.exp(error) <= ends[1]
            yield LeftOut(math.log(us / ours), error, within)


def _groups(table: Table) -> Iterator[tuple[Rows, Callable[[Sequence[Numbers]], list[float]]]]:
    """Rows of one GPU with the same words, and their formula."""
    rows = shipped(table)
    for system in sorted({row.system for row in rows}):
        platform = Platform.load(SYSTEMS[system].preset)
        mine = ((row.shape, row.us) for row in rows if row.system == system)
        for group in made(system, "", mine).kernels:
            if len(set(group.times())) >= _LEAST:
                yield group, _kept(functools.partial(formula_us, platform, group))


def _kept(
    formula: Callable[[Sequence[Numbers]], list[float]],
) -> Callable[[Sequence[Numbers]], list[float]]:
    """A formula that times each kernel once."""
    known: dict[Numbers, float] = {}

    def times(wanted: Sequence[Numbers]) -> list[float]:
        missing = [each for each in wanted if each not in known]
        if missing:
            known.update(zip(missing, formula(missing), strict=True))
        return [known[each] for each in wanted]

    return times


def _goes(way: str, kind: str, names: tuple[str, ...], one: Numbers, left: Numbers) -> bool:
    """Whether a row is left out together with the kernel `left`."""
    if way == "row":
        return one == left
    at = {name: index for index, name in enumerate(names)}
    if way == "range":
        first = at[_FIRST[kind]]
        return one[first] >= left[first]
    return all(one[at[name]] == left[at[name]] for name in _WHOLE[kind])


def lines(kinds: Sequence[str], most: int) -> Iterator[str]:
    """The table in words."""
    yield (
        f"{'kind':<10} {'left out':<9} {'kernels':>7} {'formula':>8} {'90 %':>8}"
        f" {'between':>8} {'90 %':>8} {'within':>7}"
    )
    for table in TABLES:
        for way in WAYS if table.name in kinds else ():
            found = list(left_out(table, way, most))
            formula = _errors([each.formula for each in found])
            between = _errors([each.interpolated for each in found])
            within = 100 * statistics.fmean(each.within for each in found)
            yield (
                f"{table.name:<10} {way:<9} {len(found):>7} {formula[0]:>7.1f}% {formula[1]:>7.1f}%"
                f" {between[0]:>7.1f}% {between[1]:>7.1f}% {within:>6.0f}%"
            )


def _errors(logs: Sequence[float]) -> tuple[float, float]:
    """Median and 90th percentile of the factors by which times are off, less one; percent."""
    errors = sorted(100 * math.expm1(abs(log)) for log in logs)
    return statistics.median(errors), errors[math.ceil(0.9 * len(errors)) - 1]


def main(arguments: Sequence[str]) -> int:
    """Prints the errors. Returns 0."""
    names = tuple(table.name for table in TABLES)
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.score.interpolated",
        description="Leaves out measured kernels, and interpolates them from the others.",
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(names)}; or all")
    parser.add_argument("--most", type=int, default=300, help="kernels to draw of each kind")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.kinds) - set(names))
    if unknown or given.most < 1:
        said = f"unknown kind: {unknown[0]}" if unknown else f"--most {given.most} is not above 0"
        parser.error(f"{said}; kinds: {', '.join(names)}")
    for line in lines(given.kinds or names, given.most):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
