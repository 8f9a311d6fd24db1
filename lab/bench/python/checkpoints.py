"""Cost of checkpoints for a training, next to `torch.distributed.checkpoint`.

    python lab/bench/python/checkpoints.py --folder /path/on/a/disk
    torchrun --nproc-per-node 2 lab/bench/python/checkpoints.py --folder /path/on/a/disk

One process, or several, train a model with tables of 512 MB. Each way of writing a checkpoint takes
turns:

    whole        all rows, every bit; training goes on while they are written
    changed      rows that were touched in the steps since the last one
    fp16, int8   all rows with fewer bits
    dcp          `torch.distributed.checkpoint.save`, which training waits for
    dcp async    `async_save`: training waits for a copy

Printed are medians of the first process: how long the call takes, how much longer the steps during
the writing take in all, how long it is until everything is on the disk, and the bytes of all
processes. The first two add up to what a checkpoint costs the training."""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from armillary.model.dlrm import Dense, Dlrm, EmbeddingTable, Interaction
from armillary_train.checkpoint.folder import Folder
from armillary_train.checkpoint.manifest import Reached
from armillary_train.checkpoint.restore import dense_tensors, rank_tensors
from armillary_train.checkpoint.saver import Saver
from armillary_train.checkpoint.shards import shards_of, stored_tables
from armillary_train.data import open_data
from armillary_train.process import prepare_process
from armillary_train.ranks.world import World, joined
from armillary_train.run.loop import Trainer
from armillary_train.settings import CheckpointPrecision, Settings

TABLES, ROWS, DIM = 16, 250_000, 32
BATCH, BETWEEN = 2048, 20
"""Samples of a step, and steps between two checkpoints."""

Done = Callable[[], bool]


def facts() -> Dlrm:
    """The model."""
    width = DIM * (TABLES + 1)
    return Dlrm(
        name="checkpoints",
        tables=tuple(EmbeddingTable(f"t{each}", ROWS, DIM, 1) for each in range(TABLES)),
        bottom=(Dense("bottom.0", 13, DIM),),
        interaction=Interaction("concat", TABLES + 1, DIM, width, width),
        top=(Dense("top.0", width, 64), Dense("top.1", 64, 1)),
        flow="neo",
        local_batch=BATCH,
        width=4,
        gradient_width=4,
        embedding_width=4,
    )


class Ours:
    """Checkpoints of this package."""

    def __init__(
        self, trainer: Trainer, folder: Path, precision: CheckpointPrecision | None, whole: bool
    ) -> None:
        tables = trainer.embeddings
        self.saver = Saver(
            Folder(folder),
            trainer.world,
            shards_of(tables, trainer.world.rank, trainer.world.size),
            stored_tables(tables),
            precision=precision,
            run="bench",
        )
        self.trainer, self.whole, self.step = trainer, whole, 0

    def begin(self) -> Done:
        """Begins a checkpoint; the result says whether it is written."""
        if self.whole:
            self.saver.base = None
        self.step += 1
        extra = rank_tensors(self.trainer)
        if self.trainer.world.rank == 0:
            extra |= dense_tensors(self.trainer)
        reached: Reached = {
            "updates": self.step,
            "steps": self.step,
            "samples": 0,
            "seconds": 0.0,
            "evaluations": [],
            "bound": None,
            "position": {"epoch": 0, "sample": 0},
            "interaction": "dot",
        }
        self.saver.save(self.step, extra, reached)
        thread = self.saver._thread
        assert thread is not None
        return lambda: not thread.is_alive()

    def bytes(self) -> int:
        """Bytes written so far, by all processes."""
        return sum(self.trainer.world.gather(self.saver.report.bytes, int))

    def end(self) -> None:
        """Gives the folder back."""
        self.saver.settle()
        self.saver.close()


class Theirs:
    """Checkpoints of PyTorch. Each process has keys of its own, so that it writes its tables."""

    def __init__(self, trainer: Trainer, folder: Path, asynchronous: bool) -> None:
        self.trainer, self.folder, self.asynchronous, self.step = trainer, folder, asynchronous, 0
        size = trainer.world.size
        # Training has the default group, and goes on meanwhile.
        self.options: Any = {"process_group": dist.new_group()} if size > 1 else {"no_dist": True}

    def begin(self) -> Done:
        """Begins a checkpoint; the result says whether it is written."""
        world = self.trainer.world
        state: dict[str, Any] = {f"tables-{world.rank}": self.trainer.embeddings.state_dict()}
        if world.rank == 0:
            state["parts"] = self.trainer.model.parts.state_dict()
        self.end()
        self.step += 1
        if not self.asynchronous:
            save(state, checkpoint_id=str(self.folder), **self.options)
            return lambda: True
        future: Any = async_save(state, checkpoint_id=str(self.folder), **self.options)
        return lambda: bool(future.done())

    def bytes(self) -> int:
        """Bytes written so far."""
        files = self.folder.rglob("*") if self.folder.exists() else ()
        return self.step * sum(each.stat().st_size for each in files if each.is_file())

    def end(self) -> None:
        """Removes the files."""
        if self.trainer.world.rank == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.trainer.world.gather(0, int)


def main() -> None:
    """Takes turns and prints a table."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--folder", help="where checkpoints go; a temporary folder by default")
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--ways", help="only these, such as whole,dcp")
    given = asked.parse_args()
    prepare_process(1)
    with joined(timeout=60.0) as world:
        turns(world, given.folder, given.rounds, (given.ways or "").split(","))


def turns(world: World, folder: str | None, rounds: int, only: list[str]) -> None:
    """One process's part: the ways in `only`, or all of them."""
    settings = Settings("checkpoints", global_batch=BATCH, ranks=world.size, steps=2**40, threads=1)
    trainer = Trainer(settings, facts(), world)
    source, _ = open_data(replace(settings, eval_samples=16), facts())
    read = source.parts(BATCH, world.rank, world.size)
    parts = cycle([next(read) for _ in range(BETWEEN)])

    def step() -> float:
        begin = time.perf_counter()
        trainer.step(next(parts), 1.0)
        return time.perf_counter() - begin

    with tempfile.TemporaryDirectory(dir=folder) as place:
        root = Path(world.gather(place, str)[0])
        ways: dict[str, Callable[[], Ours | Theirs]] = {
            "whole": lambda: Ours(trainer, root / "whole", None, True),
            "changed": lambda: Ours(trainer, root / "changed", None, False),
            "fp16": lambda: Ours(trainer, root / "fp16", "fp16", True),
            "int8": lambda: Ours(trainer, root / "int8", "int8", True),
            "dcp": lambda: Theirs(trainer, root / "dcp", False),
            "dcp async": lambda: Theirs(trainer, root / "dcp", True),
        }
        show = print if world.rank == 0 else lambda _: None
        show(
            f"{TABLES} tables of {ROWS:,} x {DIM}; {BETWEEN} steps of {BATCH} between; "
            f"processes: {world.size}; seconds"
        )
        show(f"{'':10} {'call':>8} {'steps':>8} {'training':>8} {'written':>8} {'MB':>8}")
        for name, make in ways.items():
            if name not in only and only != [""]:
                continue
            rows = measured(make(), step, rounds, world)
            call, slower, written, size = (
                statistics.median(each) for each in zip(*rows, strict=True)
            )
            total = call + slower
            show(f"{name:10} {call:8.3f} {slower:8.3f} {total:8.3f} {written:8.3f} {size:8.1f}")


def measured(
    way: Ours | Theirs, step: Callable[[], float], rounds: int, world: World
) -> list[tuple[float, float, float, float]]:
    """Seconds of the call, that steps took longer, until it is written; MB. The first checkpoint
    doesn't count."""
    found = []
    for number in range(rounds + 1):
        alone = statistics.median(step() for _ in range(BETWEEN))
        before, begin = way.bytes(), time.perf_counter()
        done = way.begin()
        call, slower = time.perf_counter() - begin, 0.0
        # All processes train for the same number of steps.
        while not all(world.gather(done(), bool)):
            slower += step() - alone
        written = time.perf_counter() - begin
        if number:
            size = (way.bytes() - before) / 1e6
            found.append((call, max(0.0, slower), written, size))
    way.end()
    return found


if __name__ == "__main__":
    main()
