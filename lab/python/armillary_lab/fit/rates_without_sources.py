"""`python -m armillary_lab.fit.rates_without_sources`: writes `predict/left_out.csv`, the rates of
each generation of GPUs fitted without a source that tried several layouts of one job.

The fit is that of `steps_of_unseen_sources`, with all groups of a source left out together. It
takes some fifteen minutes."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from io import StringIO

from .. import command
from ..clone import ROOT, demand
from ..measured.tried import SOURCES
from ..predict.left_out import GENERATIONS
from .steps_of_unseen_sources import Simulated, fit, simulated

FILE = ROOT / "lab/python/armillary_lab/predict/left_out.csv"
HEAD = ("source", "generation", "parameter", "ratio")
_DIGITS = 4


def main(arguments: Sequence[str]) -> int:
    """Writes the table."""
    del arguments
    demand(FILE)
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(HEAD)
    for generation in GENERATIONS:
        table.writerows(rows(generation, simulated(generation)))
    FILE.write_text(text.getvalue(), encoding="utf-8")
    return 0


def rows(generation: str, runs: Sequence[Simulated]) -> Iterator[tuple[str, str, str, float]]:
    """Ratios to the preset's efficiencies, for each source with runs of the generation."""
    for source in sorted({SOURCES[run.run.group] for run in runs if run.run.group in SOURCES}):
        rest = [run for run in runs if SOURCES.get(run.run.group) != source]
        for name, ratio in fit(rest).items():
            yield source, generation, name, round(ratio, _DIGITS)


if __name__ == "__main__":
    sys.exit(command.run(main))
