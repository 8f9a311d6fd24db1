"""`python -m armillary_lab.fit.kernels KIND [--most N] [--unseen] [--shapes] [--ranks] ...`.

Fits the parameters of a kind of kernel to the measured kernels of the package, for each generation
of GPUs. `--write` changes `systems/parts/kernels`. `--unseen` prints the errors of generations that
were left out, `--shapes` those of shapes and `--ranks` those of numbers of ranks, which take many
fits. `--intervals` writes intervals from the errors of the presets and of left-out generations.

Kinds of `together` have one fit for all generations: values that they share, and values of one
generation where shapes that were left out do not do without. `--count` prints the number of these
values, and `--floor` how far measured kernels disagree with each other."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence

from armillary.kernels import KINDS
from armillary.kernels.tables import TABLES, Measured

from ... import command
from ...measured.kernels import congested, shipped
from ...predict.measured_kernels import Predicted, predict
from . import files, floor, intervals, together, unseen
from .search import Problem, Values, written


def main(arguments: Sequence[str]) -> int:
    """Fits a kind of kernel. Returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.fit.kernels",
        description="Fits the parameters of a kind of kernel, by generation of GPUs.",
    )
    parser.add_argument("kind", choices=sorted(KINDS), help="kind of kernel")
    parser.add_argument("--most", type=int, default=4000, help="rows of a generation, drawn once")
    parser.add_argument("--fixed", nargs="*", default=[], help="parameters that stay")
    parser.add_argument("--unseen", action="store_true", help="errors of left-out generations")
    parser.add_argument("--shapes", action="store_true", help="errors of left-out shapes")
    parser.add_argument("--ranks", action="store_true", help="errors of left-out ranks")
    parser.add_argument("--intervals", action="store_true", help="write intervals")
    parser.add_argument("--write", action="store_true", help="write the parameters")
    parser.add_argument("--count", action="store_true", help="number of values in the files")
    parser.add_argument("--floor", action="store_true", help="errors of the rows among themselves")
    given = parser.parse_args(arguments)
    if given.count:
        sys.stdout.write(f"{given.kind}: {files.count(given.kind)} values\n")
        return 0
    if given.floor:
        for name, logs in floor.floors(_all(_drawn(given.kind, sys.maxsize))):
            if logs:
                together.show(name, logs)
        return 0
    drawn = _drawn(given.kind, given.most)
    if given.kind in together.KINDS:
        return _together(given, _all(drawn))
    if given.unseen or given.intervals or given.shapes or given.ranks:
        if given.unseen or given.intervals:
            _unseen(given.kind, drawn, given.intervals)
        if given.shapes:
            _left_out(given.kind, drawn, given.fixed, "shapes", unseen.shapes)
        if given.ranks:
            _left_out(given.kind, drawn, given.fixed, "ranks", unseen.ranks)
        return 0
    for name, rows in drawn.items():
        start = files.parameters(name, given.kind)
        keys = Problem(rows, _moved(start, given.fixed)).moving(start)
        values = Problem(rows, keys).fit(start)
        together.show(name, Problem(rows, keys).logs(values).tolist())
        for key, value in values.items():
            sys.stdout.write(f"  {key}: {written(key, value)}\n")
        if given.write:
            files.write(given.kind, {name: values})
    return 0


def _together(given: argparse.Namespace, rows: Sequence[Measured]) -> int:
    if given.unseen or given.intervals:
        together.unseen_errors(given.kind, rows, given.fixed, given.intervals)
    if given.shapes:
        together.shape_errors(given.kind, rows, given.fixed)
    if not (given.unseen or given.intervals or given.shapes):
        together.fit(given.kind, rows, given.fixed, given.write)
    return 0


def _all(drawn: dict[str, list[Measured]]) -> list[Measured]:
    return [row for rows in drawn.values() for row in rows]


def _drawn(kind: str, most: int) -> dict[str, list[Measured]]:
    """Rows of a kind by generation, at most `most` of each."""
    by: dict[str, list[Measured]] = {}
    for row in (row for table in TABLES for row in shipped(table)):
        if row.shape.kind == kind and not congested(row):
            by.setdefault(unseen.generation(row), []).append(row)
    return {name: random.Random(0).sample(rows, min(most, len(rows))) for name, rows in by.items()}


def _moved(start: Values, fixed: Sequence[str]) -> list[str]:
    return [key for key in start if key.rpartition(".")[2] not in fixed]


def _unseen(kind: str, drawn: dict[str, list[Measured]], keep: bool) -> None:
    """Prints errors of the presets and of left-out generations, and writes intervals from them."""
    every = _all(drawn)
    known = [found for found in predict(every) if isinstance(found, Predicted)]
    together.show("presets", [found.log for found in known])
    others = list(unseen.generations(every, lambda name: files.tree(name, kind)))
    for name in drawn:
        logs = [found.log for found in others if unseen.generation(found.row) == name]
        together.show(f"{name} left out", logs)
    together.show("generations left out", [found.log for found in others])
    if keep:
        found_ends, lines = intervals.of_kind(known, others)
        intervals.write(kind, found_ends, {row.system for row in every})
        sys.stdout.write("\n".join(lines) + "\n")


def _left_out(
    kind: str,
    drawn: dict[str, list[Measured]],
    fixed: Sequence[str],
    what: str,
    of: Callable[[Sequence[Measured], Sequence[str], Values], unseen.Left],
) -> None:
    """Prints errors of what is left out."""
    logs: list[float] = []
    for name, rows in drawn.items():
        start = files.parameters(name, kind)
        found = [log for _, log in of(rows, _moved(start, fixed), start)]
        if found:
            together.show(f"{name}, {what} left out", found)
        logs += found
    together.show(f"{what} left out", logs)


if __name__ == "__main__":
    sys.exit(command.run(main))
