"""Trains a model with its tables as they are and as trains of tensors, on synthetic clicks. Prints
memory, CPU time of a step and scores.

    python lab/bench/python/tensor_train.py --ranks 8,32 --steps 100

CPU time is that of `Trainer.step` alone, without the making of samples: the median of all steps but
the first five. All runs see the same samples."""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch

from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary_train.build import ratios
from armillary_train.data import open_data
from armillary_train.process import prepare_process
from armillary_train.ranks.world import World
from armillary_train.run import loop
from armillary_train.settings import Settings


def run(settings: Settings) -> str:
    """Needs and results of a run, as a line of the table."""
    prepare_process(settings.threads)
    facts = parse(load_model(settings.model))
    source, held_out = open_data(settings, facts)
    trainer = loop.Trainer(settings, facts, World())
    assert settings.steps is not None
    spent = []
    for _, part in zip(
        range(settings.steps), source.parts(settings.global_batch, 0, 1), strict=False
    ):
        start = time.process_time()
        trainer.step(part, 1.0)
        spent.append(time.process_time() - start)
    outcome = loop.Outcome()
    loop.evaluate(trainer, held_out, outcome, None)
    smaller = ratios(trainer.embeddings)
    elements = sum(each.rows * each.dim / smaller.get(each.name, 1) for each in facts.tables)
    scores = outcome.evaluations[-1]
    milliseconds = 1e3 * float(np.median(spent[5:]))
    return (
        f"| {settings.tensor_train or 'none'} | {4 * elements / 1e6:,.0f} | {milliseconds:.1f} "
        f"| {scores['ne']:.4f} | {scores['auc']:.4f} |"
    )


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="dlrm-criteo-kaggle")
    parser.add_argument("--ranks", default="8,32", help="ranks, separated by commas")
    parser.add_argument("--rows", default="1e6", help="least rows of a train of tensors")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=2048)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, 1 thread, load {os.getloadavg()[0]:.1f}, {options}\n")
    print("| trains | MB of tables | CPU ms a step | NE | AUC |\n| --- | --- | --- | --- | --- |")
    rules = [f"rank={rank},rows>={options.rows}" for rank in options.ranks.split(",")]
    for rule in (None, *rules):
        settings = Settings(
            options.model,
            global_batch=options.batch,
            steps=options.steps,
            threads=1,
            tensor_train=rule,
        )
        print(run(settings), flush=True)


if __name__ == "__main__":
    main()
