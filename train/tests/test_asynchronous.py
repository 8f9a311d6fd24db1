"""The asynchronous baseline: one trainer is synchronous training, and stale rows cost quality."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary_train.settings import Settings

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

from armillary_train.ranks.world import World
from armillary_train.run import asynchronous, loop
from armillary_train.run.asynchronous import train_asynchronously

SETTINGS = Settings(
    "dlrm-small", global_batch=512, steps=40, eval_samples=5000, learning_rate=0.1, threads=1
)
FACTS = parse(load_model("dlrm-small"))


def test_one_trainer_is_synchronous_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit, where the centre is its MLPs."""

    def follow(mine: list[torch.nn.Parameter], centre: list[torch.Tensor], _alpha: float) -> None:
        for each, middle in zip(mine, centre, strict=True):
            middle.copy_(each.detach())

    monkeypatch.setattr(asynchronous, "_draw", follow)
    alone = train_asynchronously(SETTINGS, FACTS, trainers=1)
    plain = loop.train(SETTINGS, FACTS, World())
    assert alone.evaluations == plain.evaluations


def test_every_batch_is_trained_on_once() -> None:
    found = train_asynchronously(replace(SETTINGS, steps=23), FACTS, trainers=5)
    assert (found.steps, found.samples) == (23, 23 * 512)


def test_staleness_costs_quality() -> None:
    one, many = (
        train_asynchronously(SETTINGS, FACTS, trainers=count, alpha=0.5).evaluations[0]["loss"]
        for count in (1, 20)
    )
    assert many > one
