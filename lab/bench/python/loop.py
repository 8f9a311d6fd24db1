"""How close simulated steps are to measured ones: bench, calibrate, predict, train, import, replay.

    python lab/bench/python/loop.py dlrm-small --ranks 2 --steps 1000

Each stage is the verb of the guide docs/guides/predict-and-train.md. Printed are the measured step
(median of the steps that were not recorded) and how far from it two simulated ones are: with the
durations that were recorded, and predicted before the training. Nothing else should run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PASSES = 4
"""Iterations of the predicted run: the first one has no step before it to overlap with."""


def main() -> None:
    """Goes round the loop once and prints a line."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("model", help="preset or model file")
    asked.add_argument("--ranks", type=int, default=2)
    asked.add_argument("--global-batch", type=int, default=2048, help="samples of all processes")
    asked.add_argument("--steps", type=int, default=1000)
    given = asked.parse_args()
    ranks, batch = str(given.ranks), str(given.global_batch)
    model = str(Path(given.model).absolute()) if Path(given.model).exists() else given.model
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        both = ["--ranks", ranks, "--global-batch", batch]
        run(folder, "bench", model, *both, "-o", "bench.json")
        first = ["--steps", str(given.steps), "--eval-samples", "2048"]
        traced = ["--trace", "trace", "--trace-steps", "31:50", "--json", "trained.json"]
        run(folder, "train", model, *both, *first, *traced)
        run(folder, "calibrate", "bench.json", "-o", "here.yml")
        here = ["-p", "here.yml", *(["--npus", "1"] if given.ranks == 1 else [])]
        options = ["--dp", ranks, "--global-batch", batch, "--passes", str(PASSES)]
        options += ["--sharding", "table", "--index-width", "4", "--elementwise"]
        options += ["--bench", "bench.json"]
        run(folder, "run", model, *options, *here, "--json", "predicted.json")
        run(folder, "import", "trace", "-o", "recorded")
        replay = ["--set", "scheduler.replay_only=true", "--json", "replayed.json"]
        run(folder, "run", "recorded", *here, *replay)
        trained, predicted, replayed = (
            read(folder / f"{name}.json") for name in ("trained", "predicted", "replayed")
        )
    measured = 1e3 * trained["trace"]["step_seconds"]
    found = {
        "recorded durations": replayed["step_time_ns"] / 1e6,
        "predicted": predicted["step_time_ns"] / PASSES / 1e6,
    }
    said = [f"{name} {ms:.2f} ({ms / measured - 1:+.1%})" for name, ms in found.items()]
    print(f"{given.model}, {ranks} processes: measured {measured:.2f} ms; {'; '.join(said)}")


def run(folder: Path, *words: str) -> None:
    """Runs a verb, and ends the program where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "armillary.cli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"armillary {' '.join(words)}\n{done.stderr}")


def read(path: Path) -> dict[str, Any]:
    """A result."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


if __name__ == "__main__":
    main()
