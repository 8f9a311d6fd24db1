"""Neo's Fig. 8: large synchronous batches against small asynchronous ones, by normalized entropy.

Here: the runs and what is compared. Not here: training (`armillary_train/run/loop.py`), the
asynchronous baseline (`armillary_train/run/asynchronous.py`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from armillary.errors import InputError, Problem

from ..study import Reference, Study, StudyRow, claimed, unreferenced

if TYPE_CHECKING:
    from armillary_train.settings import OptimizerName

MODEL = "dlrm-small"
TRAINERS = 15
"""Trainers of the paper's CPU platform (section 8.2)."""
BACKEND = "trainer"

_CLAIM = (
    "section 8.1 and Fig. 8: synchronous batches of 64K give on-par or better quality than "
    "asynchronous ones of about 150"
)


class Run(NamedTuple):
    """A way to train, with optimizer and learning rates of its own."""

    name: str
    batch: int
    optimizer: OptimizerName
    rate: float
    dense_rate: float
    trainers: int = 0
    """Asynchronous trainers; 0: synchronous."""


BASELINE = Run("asynchronous, batch 256, 15 trainers", 256, "adam", 0.0025, 0.00125, TRAINERS)
RUNS = (
    Run("synchronous, batch 256", 256, "adam", 0.0025, 0.003),
    Run("synchronous, batch 65,536", 65536, "adam", 0.096, 0.048),
)
"""Settings are the best that `lab/bench/python/quality.py` found."""


def rows(_backends: Sequence[str], samples: int = 16_000_000) -> list[StudyRow]:
    """NE of each run after `samples` samples: above the best possible one, and against the
    asynchronous run. Networks play no part.

    Raises `InputError` when PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        said = "this study trains models, and PyTorch is not installed"
        raise InputError([Problem("", "neo-quality", said, "pip install 'armillary[train]'")])
    base, bound = entropy(BASELINE, samples)
    found = [_row(f"{BASELINE.name}: NE above the best possible", base - bound, unreferenced(), "")]
    for run in RUNS:
        mine, _ = entropy(run, samples)
        above = f"{run.name}: NE above the best possible"
        found.append(_row(above, mine - bound, unreferenced(), ""))
        last = run.batch == 65536
        reference = claimed(0.0, _CLAIM, "<", 0.0) if last else unreferenced()
        why = f"{-(-samples // run.batch):,} steps" if last else ""
        against = 100 * (mine / base - 1)
        found.append(_row(f"{run.name}: NE against the asynchronous run", against, reference, why))
    return found


def entropy(run: Run, samples: int, seed: int = 0) -> tuple[float, float]:
    """NE of held-out samples after a run, and the best possible NE on them. Learning rates grow
    over a tenth of the steps, and fall from there to 0."""
    from armillary.model import load_model
    from armillary.model.dlrm import parse
    from armillary_train.ranks.world import World
    from armillary_train.run.asynchronous import train_asynchronously
    from armillary_train.run.loop import train
    from armillary_train.settings import Settings

    settings = Settings(
        MODEL,
        global_batch=run.batch,
        samples=samples,
        optimizer=run.optimizer,
        learning_rate=run.rate,
        warmup=-(-samples // run.batch) // 10,
        dense_learning_rate=run.dense_rate,
        threads=1,
        seed=seed,
    )
    facts = parse(load_model(MODEL))
    if run.trainers:
        outcome = train_asynchronously(settings, facts, trainers=run.trainers)
    else:
        outcome = train(settings, facts, World())
    assert outcome.bound is not None
    return outcome.evaluations[-1]["ne"], outcome.bound["ne"]


def _row(setup: str, ours: float, reference: Reference, why: str) -> StudyRow:
    unit = "%" if setup.endswith("asynchronous run") else "NE"
    return StudyRow(setup, BACKEND, reference, ours, unit, why or "trained here")


STUDY = Study(
    "The model dlrm-small on 16,000,000 synthetic samples with a known best score, in place of the "
    "paper's model A on its own data. The asynchronous run has tables without locks, whose updates "
    "arrive 14 batches late, and MLPs that elastic averaging holds together. Every run sees the "
    "same samples once. Each way to train has the best of twelve settings on samples of another "
    "seed. Learning rates grow over a tenth of the steps.",
    rows,
)
