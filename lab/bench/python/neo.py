"""Rates of small models like Neo's A, F and I, trained here on 1, 2 and 4 processes.

    python lab/bench/python/neo.py --platform here.yml

The study `neo-throughput` simulates the models of Table 3 on 128 NPUs. None of them fits here. So
these have fewer and narrower tables, fewer rows and narrower MLPs, with the paper's number of
layers and lookups, and its mix of widths:

    A  100 tables of 4 to 96 columns, 15 lookups, 20 layers of about 470    (paper: 1,000, 4 to 384)
    F  10 tables of 64 columns, 20 lookups, 7 layers of about 140           (10, 256)
    I  100 tables of 24 columns, 70 lookups, 43 layers of about 175         (100, 92)

Each process has the same number of samples, as in Fig. 9. Printed are samples per second of all
processes, the rate of a process over that of one alone and, with a platform of this machine
(`armillary bench`, `armillary calibrate`), what part of Eq. 1 that is. Nothing else should run.
With more processes than cores, a process has a part of a core."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROCESSES = (1, 2, 4)

MODELS: dict[str, tuple[list[tuple[int, int, int]], int, Sequence[int], Sequence[int], int]] = {
    "A": (
        [(11, 50_000, 4), (29, 50_000, 8), (20, 50_000, 16), (25, 50_000, 32), (15, 50_000, 96)],
        15,
        [494] * 5,
        [472, 380] * 7 + [1],
        128,
    ),
    "F": ([(10, 100_000, 64)], 20, [143] * 2, [143] * 4 + [1], 512),
    "I": ([(100, 20_000, 24)], 70, [175] * 21, [175] * 21 + [1], 256),
}
"""Tables (count, rows, columns), lookups of each, bottom MLP, top MLP, samples of a process."""


def main() -> None:
    """Trains each model on each number of processes, and prints a table."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--models", default="A,F,I")
    asked.add_argument("--steps", type=int, default=30)
    asked.add_argument("--platform", help="a platform file of this machine")
    given = asked.parse_args()
    more = ["-p", str(Path(given.platform).absolute())] if given.platform else []
    print(f"{'model':5} {'processes':>9} {'samples/s':>10} {'of one':>7} {'of Eq. 1':>8}")
    with tempfile.TemporaryDirectory() as place:
        for name in given.models.split(","):
            path = Path(place) / f"{name}.yml"
            path.write_text(described(name))
            one = None
            for count in PROCESSES:
                found = trained(path, count, MODELS[name][4], given.steps, more)
                rate = found["samples_per_second"]
                one = one or rate
                bound = found["roofline"]
                reached = f"{bound['reached']:8.0%}" if bound else f"{'':8}"
                print(f"{name:5} {count:9} {rate:10,.0f} {rate / count / one:7.0%} {reached}")


def described(name: str) -> str:
    """The model as a file."""
    kinds, lookups, bottom, top, batch = MODELS[name]
    tables = (
        f"  - {{count: {count}, rows: {rows}, dim: {dim}, pooling: {lookups}}}\n"
        for count, rows, dim in kinds
    )
    return (
        f"family: dlrm\nsource: like model {name} of Neo's Table 3\ndense_features: 13\n"
        f"bottom: {list(bottom)}\ninteraction: {{kind: concat}}\ntop: {list(top)}\n"
        f"local_batch: {batch}\nwidth: 4\ntables:\n{''.join(tables)}"
    )


def trained(path: Path, count: int, each: int, steps: int, more: Sequence[str]) -> dict[str, Any]:
    """The result of a run."""
    batch = ["--ranks", str(count), "--global-batch", str(count * each), "--steps", str(steps)]
    fixed = ["--eval-samples", "256", "--threads", "1", "--json", "-", *more]
    command = [sys.executable, "-m", "armillary.cli", "train", str(path), *batch, *fixed]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


if __name__ == "__main__":
    main()
