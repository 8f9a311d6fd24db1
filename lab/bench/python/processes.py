"""CPU time of a step in one process, and in two with the same number of samples each.

    torchrun --nproc-per-node 2 lab/bench/python/processes.py --model dlrm-criteo-kaggle --batch 512

Both take turns, so that other work on the machine slows both down alike: the first process trains
alone, then both do. A turn's value is the median of its steps, in the slower process. Printed are
medians over the turns, and the median and quartiles of their ratios. Batches are those of
`train_speed.py`, made beforehand."""

from __future__ import annotations

import argparse
import json
import os
import time

import numpy as np
from train_speed import batches

from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary_train.data.samples import Part
from armillary_train.process import prepare_process
from armillary_train.ranks.world import World, joined
from armillary_train.run.loop import Trainer
from armillary_train.settings import Settings

STEPS = 12
"""Steps of a turn."""
WARM = 2
"""Steps that are not counted."""
ALONE = World(0, 1)


def turn(trainer: Trainer, parts: list[Part], world: World) -> float:
    """The median of the CPU seconds of some steps."""
    spent = []
    for part in parts:
        if world.size > 1:
            world.gather(0, int)
        begin = time.process_time()
        trainer.step(part, 1.0)
        spent.append(time.process_time() - begin)
    return float(np.median(spent[WARM:]))


def main() -> None:
    """Times the turns and prints a line."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--model", default="dlrm-criteo-kaggle")
    asked.add_argument("--batch", type=int, default=512, help="samples of each process")
    asked.add_argument("--turns", type=int, default=15)
    given = asked.parse_args()
    prepare_process(1)
    facts = parse(load_model(given.model))

    def settings(size: int) -> Settings:
        return Settings(
            given.model,
            ranks=size,
            global_batch=given.batch * size,
            learning_rate=0.01,
            dense_optimizer="sgd",
            dense_learning_rate=0.01,
            threads=1,
        )

    # Made while this process knows of no other one.
    first = os.environ.get("RANK", "0") == "0"
    alone = Trainer(settings(1), facts, ALONE) if first else None
    with joined(120) as world:
        own = batches(facts, given.batch, STEPS, ALONE)
        together, shared = (
            Trainer(settings(world.size), facts, world),
            batches(facts, given.batch, STEPS, world),
        )
        found = []
        for _ in range(given.turns):
            one = turn(alone, own, ALONE) if alone is not None else 0.0
            world.gather(0, int)
            found.append((one, max(world.gather(turn(together, shared, world), float))))
        if alone is not None:
            one_ms, all_ms = 1e3 * np.median(np.array(found), 0)
            ratios = [world.size * one / every for one, every in found]
            lower, middle, upper = np.percentile(ratios, [25, 50, 75])
            line = {
                "model": given.model,
                "batch": given.batch,
                "processes": world.size,
                "one_ms": round(one_ms, 2),
                "all_ms": round(all_ms, 2),
                "gain": round(middle, 2),
                "quartiles": [round(lower, 2), round(upper, 2)],
            }
            print(json.dumps(line))


if __name__ == "__main__":
    main()
