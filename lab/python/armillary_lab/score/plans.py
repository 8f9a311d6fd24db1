"""`python -m armillary_lab.score.plans [FILE...] [--fitted] [--only SOURCE] [--json]`: of layouts
that sources tried for the same job, whether the one that we choose ran, and how far from the
fastest it is.

Files are JSON with `training`, or tables of Aleph Alpha, DLPerf and Fugaku (CSV). Without a file,
the layouts of the laboratory are scored. Targets: the chosen layout runs, and its step is within
3 % of the fastest in 80 % of the jobs, within 8 % in 95 %; ranks correlate to 0.85 in jobs of eight
layouts and more."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from armillary.errors import InputError
from armillary.kernels.tables import Left

from .. import command
from ..measured import layouts
from ..measured.published import file, steps, tried
from ..measured.tried import Tried, of_layout, of_row, of_training, ours
from ..predict.plans import Predicted, predict
from .choices import FAR, Choice, Summary, choices, summaries
from .published import reasons

_HEAD = (
    *("", "jobs", "layouts", "ran %", "within 3 %", "within 8 %", "ranked", "Spearman"),
    *("lowest", "0.85 or more"),
)


def main(arguments: Sequence[str]) -> int:
    """Prints the score of files. Returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.score.plans",
        description="Chooses a layout for each job, and prints how far from the fastest it is.",
    )
    parser.add_argument("files", nargs="*", help="JSON with training, or CSV tables of layouts")
    parser.add_argument("--json", action="store_true", help="print JSON, with every choice")
    parser.add_argument(
        "--fitted", action="store_true", help="with presets that were fitted to the sources, too"
    )
    parser.add_argument("--only", action="append", help="source; may be given again")
    given = parser.parse_args(arguments)
    rows: list[Tried] = []
    left: list[Left] = []
    try:
        for path in given.files:
            some, others = read(path)
            rows += some
            left += others
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    found: list[Predicted] = []
    for row in known(rows if given.files else list(ours()), given.only or ()):
        each = predict(row, given.fitted)
        if isinstance(each, Left):
            left.append(each)
        else:
            found.append(each)
    sys.stdout.write("\n".join(_words(found, left, given.json)) + "\n")
    return 0


def read(path: str) -> tuple[list[Tried], list[Left]]:
    """The layouts of a file, and why other rows are none. Raises `InputError`."""
    if path.endswith(".csv"):
        if layouts.holds(path):
            return [of_layout(each) for each in layouts.read(path)], []
        runs, left = tried.read(path)
        return [of_row(each) for each in runs], left
    trainings = [steps.training(row) for row in file.read(path).training]
    found = [of_training(each) for each in trainings if not isinstance(each, Left)]
    return found, [each for each in trainings if isinstance(each, Left)]


def known(rows: Sequence[Tried], only: Sequence[str] = ()) -> list[Tried]:
    """The layouts of jobs with a measured time, of some sources."""
    timed = {(row.source, row.job) for row in rows if row.ran and row.step_s}
    return [
        row for row in rows if (row.source, row.job) in timed and (not only or row.source in only)
    ]


def _words(found: Sequence[Predicted], left: Sequence[Left], as_json: bool) -> Iterator[str]:
    made = choices(found)
    totals = summaries(made)
    if as_json:
        report = {
            "predicted": len(found),
            "left_out": reasons(left),
            "summaries": [asdict(each) for each in totals],
            "choices": [asdict(each) for each in made],
        }
        yield json.dumps({"plans": report}, indent=1)
        return
    yield from table(totals)
    yield from _bad(made)
    for reason, count in reasons(left):
        yield f"left out: {count}, {reason}"


def table(totals: Sequence[Summary]) -> Iterator[str]:
    """A table of sources."""
    if totals:
        yield "| " + " | ".join(_HEAD) + " |"
        yield "| --- " * len(_HEAD) + "|"
        yield from map(_line, totals)


def _bad(made: Sequence[Choice]) -> Iterator[str]:
    """The jobs where we choose badly."""
    for one in made:
        if not one.within(FAR):
            lost = "did not run" if one.lost is None else f"{one.lost:.0f} % longer"
            said = one.chosen or "none fits, we say"
            yield f"{one.source}, {one.job}: {said}: {lost}"


def _line(each: Summary) -> str:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    shares = (f"{share:.0f}" for share in (each.works, each.near, each.far))
    ranked = (str(each.ranked), number(each.correlation), number(each.lowest), str(each.above))
    return f"| {' | '.join((each.name, str(each.jobs), str(each.layouts), *shares, *ranked))} |"


if __name__ == "__main__":
    sys.exit(command.run(main))
