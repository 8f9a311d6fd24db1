"""Searches the learning rates of every run of the study `neo-quality`, all in the same way.

    python lab/bench/python/quality.py --samples 16000000 --run 0

Twelve settings of each way to train: two optimizers of the tables, three rates of the tables, two
rates of the MLPs, around values that grow with the batch `B`: Adam's and those of the MLPs with the
square root of `B`, row-wise AdaGrad's with its fourth root. Learning rates grow over a tenth of the
steps and fall linearly. All twelve train on a part of the samples, the best three of them on all
samples: a quarter where batches are large, so that there are 60 steps, otherwise a sixteenth.
Samples are those of seed 1, the study's are those of seed 0. Prints JSON lines."""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator

from armillary_lab.studies.neo_quality import BASELINE, RUNS, Run, entropy

SEED = 1
SMALL = 256
"""Batch at which the rates in the middle of the search are stated."""
MLPS = (0.00125, 0.003)
ADAM = (0.001, 0.0025, 0.006)
ROW_WISE = (0.05, 0.1, 0.2)


def settings(way: Run) -> Iterator[Run]:
    """The twelve settings of a way to train."""
    growth = way.batch / SMALL
    tables = [("adam", rate * growth**0.5) for rate in ADAM]
    tables += [("rowwise_adagrad", rate * growth**0.25) for rate in ROW_WISE]
    for (optimizer, rate), mlps in itertools.product(tables, MLPS):
        yield way._replace(optimizer=optimizer, rate=rate, dense_rate=mlps * growth**0.5)


def scored(tried: Run, samples: int) -> float:
    """NE above the best possible one, printed as a line."""
    before = time.process_time()
    found, bound = entropy(tried, samples, SEED)
    line = {"run": tried._asdict(), "samples": samples, "ne_above": round(found - bound, 5)}
    print(json.dumps({**line, "cpu_s": round(time.process_time() - before, 1)}), flush=True)
    return found - bound


def main() -> None:
    """Searches one way to train, or all."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--samples", type=int, default=16_000_000)
    asked.add_argument("--run", type=int, choices=range(1 + len(RUNS)), help="0: asynchronous")
    given = asked.parse_args()
    ways = (BASELINE, *RUNS)
    for way in ways if given.run is None else (ways[given.run],):
        share = 4 if way.batch > 16384 else 16
        short = given.samples // share
        tried = {each: scored(each, short) for each in settings(way)}
        for each in sorted(tried, key=tried.__getitem__)[:3]:
            scored(each, given.samples)


if __name__ == "__main__":
    main()
