"""Cost in quality of messages of 16 and 8 bits (Neo, section 8.4): a model trained by two
processes, with each format next to 32 bits.

Here: the runs and what is compared. Not here: training (`armillary_train/run/loop.py`), formats
(`model/messages.py`, `armillary_train/ranks/number_formats.py`)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from armillary.errors import InputError, Problem
from armillary.model.sharding_plan import ShardingPlan
from armillary.model.sharding_plan_file import write_plan
from armillary.workload.dlrm import sharding_plan

from ..study import Study, StudyRow, claimed, unreferenced

MODEL = "dlrm-small"
PROCESSES = 2
SAMPLES = 500_000
BATCH = 2048

PLAN = "plan.yml"
PLAIN = "fp32"
EIGHT = "forward={0},backward={0},reduce-scatter={0},all-reduce={0}"
RUNS = {
    "fp16 forward, bf16 backward": "forward=fp16,backward=bf16",
    "int8 forward": "forward=int8",
    "int8 backward": "backward=int8",
    "int8 reduce-scatter": "reduce-scatter=int8",
    "int8 all-reduce": "all-reduce=int8",
    "int8 everywhere": EIGHT.format("int8"),
    "fp8 everywhere": EIGHT.format("fp8"),
}
"""Name -> formats."""

WHERE = "section 8.4: FP16 forward and BF16 backward, without any training quality loss"
MARGIN = 0.001
"""Relative difference of NE that counts, chosen by us."""
WHY = "the same samples in the same order; NE of 100,000 samples that were not trained on"
ROUGH = "rounding acts as noise in the gradients; each row has a scale of its own"


class Score(NamedTuple):
    """Quality after training."""

    ne: float
    auc: float


def rows(_backends: Sequence[str], samples: int = SAMPLES) -> list[StudyRow]:
    """Normalized entropy and AUC of every run, next to those of 32 bits. Networks play no part."""
    if importlib.util.find_spec("torch") is None:
        said = "training needs PyTorch, which is not installed"
        raise InputError([Problem("", "neo-messages", said, "pip install 'armillary[train]'")])
    return list(_rows(samples))


def _rows(samples: int) -> Iterator[StudyRow]:
    with tempfile.TemporaryDirectory() as folder:
        write_plan(_plan(), str(Path(folder) / PLAN))
        first = _score(folder, samples, None)
        yield StudyRow(f"{PLAIN}, NE", "-", unreferenced(), first.ne, "", WHY)
        yield StudyRow(f"{PLAIN}, AUC", "-", unreferenced(), first.auc, "", WHY)
        for name, formats in RUNS.items():
            found = _score(folder, samples, formats)
            papers = name == next(iter(RUNS))
            same = claimed(1.0, WHERE, "=", MARGIN) if papers else unreferenced()
            setup, why = f"{name}, NE over {PLAIN}", WHY if papers else ROUGH
            yield StudyRow(setup, "-", same, found.ne / first.ne, "x", why)
            for score, one, other in (
                ("NE", found.ne, first.ne),
                ("AUC", found.auc, first.auc),
            ):
                setup = f"{name}, {score} less {PLAIN}, millionths"
                yield StudyRow(setup, "-", unreferenced(), 1e6 * (one - other), "1e-6", why)


def _plan() -> ShardingPlan:
    """Every other table whole, the others cut by rows: all-to-all and reduce-scatter."""
    whole, cut = (sharding_plan(MODEL, dp=PROCESSES, sharding=each) for each in ("table", "row"))
    pairs = zip(whole.tables, cut.tables, strict=True)
    return replace(whole, tables=tuple(pair[at % 2] for at, pair in enumerate(pairs)))


def _score(folder: str, samples: int, formats: str | None) -> Score:
    """A run in processes of its own."""
    file = Path(folder) / "result.json"
    options = ["--ranks", str(PROCESSES), "--samples", str(samples), "--global-batch", str(BATCH)]
    options += ["--json", str(file), "--plan", str(Path(folder) / PLAN)]
    options += [] if formats is None else ["--messages", formats]
    command = [sys.executable, "-c", "import armillary_command as a; a.main()", "train", MODEL]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["no message"]
        raise InputError([Problem("", "armillary train", lines[-1][:200])])
    last = json.loads(file.read_text(encoding="utf-8"))["evaluations"][-1]
    return Score(last["ne"], last["auc"])


STUDY = Study(
    f"The model {MODEL} on {SAMPLES:,} synthetic samples in batches of {BATCH:,}, by {PROCESSES} "
    "processes, with the same seed. Every other table is cut by rows, so that its pooled rows are "
    "added up; the others are whole. It needs PyTorch.",
    rows,
)
