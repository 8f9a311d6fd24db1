"""`python -m armillary_lab.score.layouts FILE.csv [--defaults] [--json]`: which layouts we say fit,
of those that ran and of those that ran out of memory.

Nothing is fitted to layouts, so no fit has seen any group of the file. Targets: of layouts that ran
out of memory at least 95 % are caught, which do not fit or are near the limit by our count. Of
those that ran at most 1 % do not fit, and at most 8 % of all are near."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from armillary.errors import InputError
from armillary.platform import Platform

from .. import command
from ..measured import layouts
from ..predict.layouts import FRAMEWORK, PRESET, LayoutPrediction, predict

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Answers:
    """Layouts of a kind, and what we say of them."""

    kind: str
    ran: int
    lost: int
    """Layouts that ran out of memory."""
    ran_no: int
    ran_near: int
    lost_yes: int
    lost_near: int

    @property
    def caught(self) -> float:
        """Percent of layouts that ran out of memory that do not fit, or are near the limit, by our
        count."""
        return 100 * (self.lost - self.lost_yes) / max(self.lost, 1)

    @property
    def refused(self) -> float:
        """Percent of layouts that ran that do not fit, by our count."""
        return 100 * self.ran_no / max(self.ran, 1)

    @property
    def near(self) -> float:
        """Percent of all layouts that are near the limit."""
        return 100 * (self.ran_near + self.lost_near) / max(self.ran + self.lost, 1)


def answers(kind: str, found: Sequence[LayoutPrediction]) -> Answers:
    """Counts of our answers for these layouts."""

    def count(ran: bool, answer: str = "") -> int:
        return sum(each.run.ran is ran and answer in ("", each.fits) for each in found)

    return Answers(
        kind,
        count(True),
        count(False),
        count(True, "no"),
        count(True, "near"),
        count(False, "yes"),
        count(False, "near"),
    )


def kinds(found: Sequence[LayoutPrediction]) -> Iterator[Answers]:
    """Answers for all layouts, for each group, and for each kind of kernels and recomputation."""
    yield answers("all", found)
    for name in ("group", "kernel", "recompute"):
        values = dict.fromkeys(getattr(each.run, name) for each in found)
        for value in values:
            same = [each for each in found if getattr(each.run, name) == value]
            yield answers(f"{name} {value}", same)


def main(arguments: Sequence[str]) -> int:
    """Prints the score of a file. Returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.score.layouts",
        description="Predicts which layouts of a file fit, and prints how often that is right.",
    )
    parser.add_argument("file", help="CSV as Aleph Alpha's, with a row for each layout")
    parser.add_argument("--json", action="store_true", help="print JSON, with every layout")
    parser.add_argument(
        "--defaults", action="store_true", help="as if nothing were known of the framework"
    )
    given = parser.parse_args(arguments)
    try:
        rows = layouts.read(given.file)
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    platform = Platform.load(PRESET)
    all_of = [predict(run, platform, None if given.defaults else FRAMEWORK) for run in rows]
    found = [each for each in all_of if each.most]
    if given.json:
        sys.stdout.write(json.dumps([_plain(each) for each in all_of], indent=1) + "\n")
        return 0
    head = ("", "ran", "of them no", "near", "ran out", "of them yes", "near", "caught %")
    sys.stdout.write("| " + " | ".join((*head, "refused %", "near %")) + " |\n")
    sys.stdout.write("| --- " * 10 + "|\n")
    for each in kinds(found):
        sys.stdout.write(_line(each) + "\n")
    for one in sorted(found, key=lambda one: one.most):
        if one.fits == ("no" if one.run.ran else "yes"):
            sys.stdout.write(f"wrong: {_words(one)}\n")
    if len(found) < len(all_of):
        said = sorted({each.fits for each in all_of if not each.most})
        sys.stdout.write(f"can't be laid out: {len(all_of) - len(found)} ({'; '.join(said)})\n")
    return 0


def _line(each: Answers) -> str:
    counts = (each.ran, each.ran_no, each.ran_near, each.lost, each.lost_yes, each.lost_near)
    shares = (each.caught, each.refused, each.near)
    cells = (each.kind, *map(str, counts), *(f"{share:.1f}" for share in shares))
    return f"| {' | '.join(cells)} |"


def _words(each: LayoutPrediction) -> str:
    run = each.run
    sp = ", sp" if run.sp else ""
    return (
        f"{run.name} {run.group}, {run.kernel}, recompute {run.recompute}, micro-batch "
        f"{run.micro_batch}, tp {run.tp}, pp {run.pp}{sp}: {each.most / GIB:.1f} GiB, "
        + ("ran" if run.ran else "ran out of memory")
    )


def _plain(each: LayoutPrediction) -> dict[str, object]:
    run = each.run
    return {
        "id": run.name,
        "group": run.group,
        "ran": run.ran,
        "gib": each.most / GIB,
        "fits": each.fits,
    }


if __name__ == "__main__":
    sys.exit(command.run(main))
