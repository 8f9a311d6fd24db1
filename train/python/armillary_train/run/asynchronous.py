"""Asynchronous training with parameter servers: the baseline of Neo's Fig. 8.

Here: its quality, in one process and repeatable. Not here: its speed, and synchronous training
(`loop.py`).

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, section 3): `T` trainers take batches in turn.

    tables   on servers that all trainers read and update without locks (Hogwild!, Recht et al.,
             2011). A trainer reads the rows of its next batch when it begins it, and its update
             arrives `T - 1` batches of others later
    MLPs     a copy on each trainer, drawn to a centre after each of its batches (elastic averaging,
             Zhang et al., 2015): `x -= alpha (x - centre)`, `centre += alpha (x - centre)`

Evaluated is the centre, with the tables."""

from __future__ import annotations

import torch
from torch import Tensor

from armillary.model.dlrm import Dlrm as Facts

from ..data import open_data
from ..process import prepare_process
from ..ranks.world import World
from ..settings import Settings, factor
from .loop import Outcome, Trainer, evaluate
from .pipeline import PipelinedBatch


def train_asynchronously(
    settings: Settings, facts: Facts, *, trainers: int, alpha: float = 0.1
) -> Outcome:
    """Runs `trainers` trainers, each with batches of `settings.global_batch` samples.

    Raises `InputError` and `TrainingError`."""
    prepare_process(settings.threads)
    source, held_out = open_data(settings, facts)
    steps = -(-(source.size or 0) // settings.global_batch)
    all_ = [Trainer(settings, facts, World())]
    shared = all_[0].embeddings
    all_ += [Trainer(settings, facts, World(), shared) for _ in range(trainers - 1)]
    centre = [each.detach().clone() for each in all_[0].parameters]
    begun: list[PipelinedBatch | None] = [None] * trainers
    outcome = Outcome()

    def finish(place: int) -> None:
        batch = begun[place]
        if batch is not None:
            scale = factor(outcome.steps, steps, settings.warmup, settings.decay)
            all_[place].finish(batch, scale)
            _draw(all_[place].parameters, centre, alpha)
            outcome.steps += 1
            outcome.samples += batch.part.whole
        begun[place] = None

    for number, part in enumerate(source.parts(settings.global_batch, 0, 1)):
        place = number % trainers
        finish(place)
        begun[place] = all_[place].begin(part)
    for place in range(trainers):
        finish(place)
    with torch.no_grad():
        for mine, middle in zip(all_[0].parameters, centre, strict=True):
            mine.copy_(middle)
    evaluate(all_[0], held_out, outcome, None)
    return outcome


def _draw(mine: list[torch.nn.Parameter], centre: list[Tensor], alpha: float) -> None:
    """Draws a trainer's parameters and the centre to each other."""
    with torch.no_grad():
        for each, middle in zip(mine, centre, strict=True):
            pull = alpha * (each - middle)
            each.sub_(pull)
            middle.add_(pull)
