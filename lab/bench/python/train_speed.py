"""Samples/s of `armillary train` on the two models with which its peers are timed.

    python lab/bench/python/train_speed.py --model dlrm-criteo-kaggle --batch 2048
    torchrun --nproc-per-node 2 lab/bench/python/train_speed.py --model dlrm-criteo-kaggle

The batches are those of ../shared/training/peers/bench_dlrm.py: made beforehand, ids by a power law
with exponent 1.05. So are optimizers, the number of steps, and the clock: CPU time of the process,
the median of the steps after the first two. With several processes the slowest one counts."""

from __future__ import annotations

import argparse
import json
import os
import time

import numpy as np
import torch

from armillary.model import load_model
from armillary.model.dlrm import Dlrm, parse
from armillary_train.data.samples import Part, Position, Samples
from armillary_train.process import prepare_process
from armillary_train.ranks.world import World, joined
from armillary_train.run.loop import Trainer
from armillary_train.settings import Settings

SKEW = 1.05
WARM = 2
"""Steps that are not counted."""


def ids(rows: int, count: int, table: int, made: np.random.Generator) -> np.ndarray:
    """Ids by the power law, scattered over the rows."""
    cumulative = np.cumsum(np.arange(1, rows + 1, dtype=np.float64) ** -SKEW)
    cumulative /= cumulative[-1]
    ranks = np.minimum(np.searchsorted(cumulative, made.random(count)), rows - 1)
    scatter = np.random.default_rng(7 + table).integers(1, rows + 1) | 1
    return np.asarray(ranks.astype(np.int64) * scatter % rows)


def batches(facts: Dlrm, batch: int, steps: int, world: World) -> list[Part]:
    """Data of this rank: `batch` samples of its own in each step."""
    made = np.random.default_rng(100 + world.rank)
    columns = [
        ids(table.rows, batch * table.pooling * steps, place, made).reshape(steps, -1)
        for place, table in enumerate(facts.tables)
    ]
    lengths = np.repeat(np.array([t.pooling for t in facts.tables], np.int32)[:, None], batch, 1)
    found = []
    for step in range(steps):
        dense = np.log1p(made.lognormal(0, 1, (batch, 13)).astype(np.float32))
        labels = (made.random(batch) < 0.256).astype(np.float32)
        indices = np.concatenate([column[step] for column in columns], dtype=np.int32)
        samples = Samples(dense, lengths, indices, labels)
        after = Position(0, (step + 1) * batch * world.size)
        found.append(Part(samples, step * batch, batch * world.size, after))
    return found


def main() -> None:
    """Times the steps and prints a line, and writes it to `--out`."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--model", default="dlrm-criteo-kaggle")
    asked.add_argument("--batch", type=int, default=2048, help="samples of each process")
    asked.add_argument("--steps", type=int, default=10)
    asked.add_argument("--optimizer", default="rowwise_adagrad")
    asked.add_argument("--precision", default="fp32")
    asked.add_argument("--plan")
    asked.add_argument("--out")
    asked.add_argument("--profile", action="store_true", help="print where the time goes")
    given = asked.parse_args()
    prepare_process(1)
    facts = parse(load_model(given.model))
    with joined(60) as world:
        settings = Settings(
            given.model,
            ranks=world.size,
            global_batch=given.batch * world.size,
            optimizer=given.optimizer,
            precision=given.precision,
            plan=given.plan,
            learning_rate=0.01,
            dense_optimizer="sgd",
            dense_learning_rate=0.01,
            threads=1,
        )
        parts = batches(facts, given.batch, given.steps + WARM, world)
        trainer = Trainer(settings, facts, world)
        cpu, wall = [], []
        for part in parts:
            world.gather(0, int)
            begin, start = time.process_time(), time.perf_counter()
            trainer.step(part, 1.0)
            cpu.append(time.process_time() - begin)
            wall.append(time.perf_counter() - start)
        slowest = max(world.gather(float(np.median(cpu[WARM:])), float))
        line = {
            "model": given.model,
            "batch": given.batch,
            "processes": world.size,
            "optimizer": given.optimizer,
            "precision": given.precision,
            "cpu_ms": slowest * 1e3,
            "samples_per_cpu_second": given.batch * world.size / slowest,
            "samples_per_second": given.batch * world.size / float(np.median(wall[WARM:])),
            "load": os.getloadavg()[0],
        }
        if world.rank == 0:
            print(json.dumps(line))
            if given.out:
                with open(given.out, "a", encoding="utf-8") as stream:  # noqa: PTH123
                    stream.write(json.dumps(line) + "\n")
        if given.profile:
            profile(trainer, parts[-1])


def profile(trainer: Trainer, part: Part) -> None:
    """Prints where the time of a step goes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        trainer.step(part, 1.0)
    print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))


if __name__ == "__main__":
    main()
