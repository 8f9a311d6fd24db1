"""Samples/s of a training with the pipeline, and without it, in one run.

    torchrun --nproc-per-node 2 lab/bench/python/pipeline.py --model dlrm-criteo-kaggle --batch 512

Two trainers of the same model take turns, a few steps each, so that other work on the machine
slows both down alike. Printed are medians over the turns, and the median of the ratios of
neighbouring turns. Batches are those of `train_speed.py`, made beforehand."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import replace
from typing import Any

from train_speed import batches

from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary_train.data.samples import Part
from armillary_train.process import prepare_process
from armillary_train.ranks.world import World, joined
from armillary_train.run.loop import Trainer
from armillary_train.settings import Settings

BATCHES = 8
"""Batches that are used again and again."""


def turn(trainer: Trainer, parts: list[Part], steps: int, world: World) -> tuple[float, float]:
    """Wall and CPU seconds of some steps; with several processes those of the slowest one."""
    world.gather(0, int)
    cpu, wall = time.process_time(), time.perf_counter()
    for step in range(steps):
        ahead = range(step + 1, min(steps, step + 1 + trainer.ahead))
        trainer.step(parts[step % BATCHES], 1.0, [parts[each % BATCHES] for each in ahead])
    mine = time.perf_counter() - wall, time.process_time() - cpu
    walls, cpus = zip(*world.gather(mine, tuple[float, float]), strict=True)
    return max(walls), max(cpus)


def main() -> None:
    """Times the turns and prints a line."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--model", default="dlrm-criteo-kaggle")
    asked.add_argument("--batch", type=int, default=512, help="samples of each process")
    asked.add_argument("--steps", type=int, default=16, help="steps of a turn")
    asked.add_argument("--turns", type=int, default=20, help="turns of each trainer")
    asked.add_argument("--plan")
    given = asked.parse_args()
    prepare_process(1)
    facts = parse(load_model(given.model))
    with joined(60) as world:
        base = Settings(
            given.model,
            ranks=world.size,
            global_batch=given.batch * world.size,
            plan=given.plan,
            learning_rate=0.01,
            dense_optimizer="sgd",
            dense_learning_rate=0.01,
            threads=1,
        )
        parts = batches(facts, given.batch, BATCHES, world)
        trainers = [Trainer(replace(base, pipeline=each), facts, world) for each in (True, False)]
        for trainer in trainers:
            turn(trainer, parts, BATCHES, world)
            trainer.exchange.waited.update(dict.fromkeys(trainer.exchange.waited, 0.0))
        found = [
            [turn(trainer, parts, given.steps, world) for trainer in trainers]
            for _ in range(given.turns)
        ]
        waited = [
            max(world.gather(sum(trainer.exchange.waited.values()), float)) for trainer in trainers
        ]
        if world.rank == 0:
            print(json.dumps(report(given, world, found, waited)))


def report(
    given: argparse.Namespace,
    world: World,
    found: list[list[tuple[float, float]]],
    waited: list[float],
) -> dict[str, Any]:
    """The line."""
    samples = given.batch * world.size * given.steps
    wall, cpu = (
        [statistics.median(pair[place][part] for pair in found) for place in (0, 1)]
        for part in (0, 1)
    )
    steps = given.steps * given.turns
    return {
        "model": given.model,
        "batch": given.batch,
        "processes": world.size,
        "samples_per_second": [samples / each for each in wall],
        "gain": statistics.median(other[0] / mine[0] for mine, other in found) - 1,
        "samples_per_cpu_second": [samples / each for each in cpu],
        "cpu_gain": statistics.median(other[1] / mine[1] for mine, other in found) - 1,
        "waited_ms_per_step": [1e3 * each / steps for each in waited],
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    main()
